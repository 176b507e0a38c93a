"""Keys of git's configuration that run a program, as git-config(1) documents them, and harmless
similar ones.
"""

import re
from collections.abc import Mapping
from pathlib import Path

# Key -> how its value names a program. `{canary}` is one; names in angle brackets are any name.
RUN: Mapping[str, str] = {
    "alias.*": "!{canary} {key}",
    "browser.<tool>.cmd": "{canary} {key}",
    "browser.<tool>.path": "{canary}",
    "core.alternateRefsCommand": "{canary} {key}",
    "core.askPass": "{canary}",
    "core.editor": "{canary} {key}",
    "core.fsmonitor": "{canary}",
    "core.gitProxy": "{canary}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{canary} {key}",
    "core.sshCommand": "{canary} {key}",
    "credential.<url>.*": "!{canary} {key}",
    "credential.helper": "!{canary} {key}",
    "diff.<driver>.command": "{canary} {key}",
    "diff.<driver>.textconv": "{canary} {key}",
    "diff.external": "{canary} {key}",
    "diff.guitool": "canary",
    "diff.tool": "canary",
    "difftool.<tool>.cmd": "{canary} {key}",
    "difftool.<tool>.path": "{canary}",
    "filter.<driver>.clean": "{canary} {key}",
    "filter.<driver>.smudge": "{canary} {key}",
    "filter.<driver>.process": "{canary} {key}",  # in gitattributes(5) alone
    "fsmonitor.socketDir": "{hooks}",
    "gpg.<format>.program": "{canary}",
    "gpg.program": "{canary}",
    "gpg.ssh.defaultKeyCommand": "{canary} {key}",
    "guitool.<name>.cmd": "{canary} {key}",
    "help.browser": "canary",
    "imap.tunnel": "{canary} {key}",
    "init.templateDir": "{hooks}",
    "instaweb.browser": "{canary}",
    "instaweb.httpd": "{canary}",
    "instaweb.modulePath": "{hooks}",
    "interactive.diffFilter": "{canary} {key}",
    "man.<tool>.cmd": "{canary} {key}",
    "man.<tool>.path": "{canary}",
    "man.viewer": "canary",
    "merge.<driver>.driver": "{canary} {key}",
    "merge.guitool": "canary",
    "merge.tool": "canary",
    "mergetool.<tool>.cmd": "{canary} {key}",
    "mergetool.<tool>.path": "{canary}",
    "pager.<cmd>": "{canary} {key}",
    "remote.<name>.proxy": "ext::{canary}",
    "remote.<name>.pushurl": "ext::{canary} {key}",
    "remote.<name>.receivepack": "{canary} {key}",
    "remote.<name>.uploadpack": "{canary} {key}",
    "remote.<name>.url": "ext::{canary} {key}",
    "remote.<name>.vcs": "ext",
    "sendemail.ccCmd": "{canary} {key}",
    "sendemail.headerCmd": "{canary} {key}",
    "sendemail.sendmailCmd": "{canary} {key}",
    "sendemail.smtpServer": "{canary}",
    "sendemail.tocmd": "{canary} {key}",
    "sequence.editor": "{canary} {key}",
    "submodule.<name>.update": "!{canary} {key}",
    "submodule.<name>.url": "ext::{canary} {key}",
    "tar.<format>.command": "{canary} {key}",
    "trailer.<token>.cmd": "{canary} {key}",
    "trailer.<token>.command": "{canary} {key}",
    "uploadpack.packObjectsHook": "{canary} {key}",
    "url.<base>.insteadOf": "ext::{canary} {key}",
    "url.<base>.pushInsteadOf": "ext::{canary} {key}",
    "web.browser": "canary",
}
# Settings that make git use what the others name.
ARM: Mapping[str, str] = {
    "core.fsmonitorHookVersion": "2",
    "core.untrackedCache": "true",
    "commit.gpgSign": "true",
    "diff.autoRefreshIndex": "true",
    "extensions.partialClone": "canary",
    "fetch.recurseSubmodules": "true",
    "filter.canary.required": "true",
    "log.showSignature": "true",
    "maintenance.auto": "true",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "remote.canary.promisor": "true",
    "submodule.recurse": "true",
}
# A documented key that matches has to be in one of the tables here.
SUSPICIOUS = re.compile(
    r"command|program|cmd|helper|editor|pager|hook|textconv|driver|fsmonitor|askpass|proxy|browser|httpd|viewer|tunnel"
    r"|vcs|uploadpack$|receivepack$|external|filter|clean$|smudge|process|alias|tool|path$|dir$|update$|url|exec|script",
    re.IGNORECASE,
)
# Those that match and are words for people, switches, names of values or of files that git itself
# reads or writes.
HARMLESS = re.compile(
    r"(?:advice|color|gitweb|trace2|uploadpackfilter)\..*|(?:fsck|fetch\.fsck|receive\.fsck)\..*"
    r"|(?:difftool|mergetool)\.(?:prompt|trustExitCode|guiDefault|hideResolved|keepBackup|keepTemporaries|writeToTemp)"
    r"|mergetool\.(?:<tool>\.(?:hideResolved|trustExitCode)|<variant>\.layout|meld\.\w+|vimdiff\.layout)"
    r"|difftool\.<tool>\.trustExitCode|guitool\.<name>\.(?!cmd$)\w+|bundle\..*|http\..*"
    r"|diff\.<driver>\.(?:algorithm|binary|cachetextconv|trustExitCode|wordRegex|xfuncname)|diff\.trustExitCode"
    r"|merge\.<driver>\.(?:name|recursive)|remote\.<name>\.(?:partialclonefilter|proxyAuthMethod|skipDefaultUpdate)"
    r"|sendemail\.(?:alias(?:FileType|esFile)|smtp(?:Pass|ServerOption|ServerPort|sslcertpath)|<identity>\.\*)"
    r"|branch\.<name>\.description|clean\.requireForce|clone\.filterSubmodules|column\.clean|commit\.cleanup"
    r"|commitGraph\.maxNewFilters|commitGraph\.changedPaths\w*|completion\.commands|core\.(?:fsmonitorHookVersion|quotePath)"
    r"|credential\.(?:useHttpPath|protectProtocol|sanitizePrompt)|format\.coverFromDescription|fsmonitor\.allowRemote"
    r"|gitcvs\.\w+|help\.htmlPath|imap\.pass|include\.path|includeIf\.<condition>\.path|notes\.rewrite\.<command>"
    r"|push\.useForceIfIncludes|rebase\.(?:abbreviateCommands|rescheduleFailedExec)|receive\.(?:shallowUpdate|updateServerInfo)"
    r"|repack\.updateServerInfo|rerere\.autoUpdate|stash\.showIncludeUntracked|transfer\.credentialsInUrl"
    r"|uploadpack\.allowFilter|feature\..*|core\.sparseCheckout\w*|safe\.directory|submodule\.alternate\w+"
    r"|credentialCache\..*|credentialStore\..*|gc\.repackFilter(?:To)?|repack\.\w+|url\.<base>\.\w+"
    r"|remote\.<name>\.(?:serverOption|followRemoteHEAD|promisor)|promisor\..*"
)


def concrete(key: str) -> str:
    """A documented key with names in place of what is in angle brackets."""
    names = {
        "<url>": "https://example.invalid",
        "<format>": "x509",
        "<base>": "https://example.invalid/",
        "<cmd>": "config",
    }
    for placeholder in re.findall(r"<\w+>", key):
        key = key.replace(placeholder, names.get(placeholder, "canary"))
    return key.replace(".*", ".helper" if key.startswith("credential") else ".ls-files")


def hostile_config(canary: Path, hooks: Path) -> str:
    """A configuration in which every key that runs a program runs the canary, and what makes git
    use it is on.
    """
    values = {
        key: value.format(canary=canary, hooks=hooks, key=key.translate({60: "_", 62: "_"}))
        for key, value in RUN.items()
    }
    lines = list[str]()
    for key, value in {**{concrete(key): value for key, value in values.items()}, **ARM}.items():
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        head = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
        lines.append(f'{head}\n\t{name} = "{value}"\n')
    return "".join(lines)
