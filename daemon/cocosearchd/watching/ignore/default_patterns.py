"""Built-in exclusions as ignore patterns: files that are indexed only on request."""

from cocosearchd.forms.path_forms import path_text
from cocosearchd.watching.ignore import patterns

# Bytes of a stored path. PostgreSQL's B-trees take rows of at most 2,704 bytes, overhead included,
# and a longer path would fail the files that are stored together with it.
LONGEST_PATH = 2_600
LENGTH_RULE = f"paths have at most {LONGEST_PATH:,} bytes"
TOOL_FILES_RULE = "what tools install, generate or keep for themselves"
OUTPUT_RULE = "what builds put out, unless git tracks it"
LONGEST_NAME = 255  # bytes of one part of a path (NAME_MAX in limits.h)

# Version control, installed dependencies, caches, generated text. Only the user's own patterns can
# include these again.
TOOL_FILES = patterns.parse(
    b"""\
.git
.hg/
.svn/
.bzr/
.jj/
node_modules/
bower_components/
jspm_packages/
__pycache__/
.venv/
venv/
site-packages/
.tox/
.nox/
.eggs/
*.egg-info/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.cache/
.gradle/
.terraform/
.next/
.nuxt/
.svelte-kit/
.turbo/
.parcel-cache/
.yarn/
.idea/
.vs/
.DS_Store
DerivedData/
Pods/
package-lock.json
npm-shrinkwrap.json
yarn.lock
pnpm-lock.yaml
bun.lock
poetry.lock
uv.lock
pdm.lock
Pipfile.lock
Cargo.lock
Gemfile.lock
composer.lock
mix.lock
flake.lock
pubspec.lock
Podfile.lock
packages.lock.json
.terraform.lock.hcl
go.sum
*.min.js
*.min.css
*.map
"""
)
# Usual output directories of builds. Files in them that git tracks are source all the same.
OUTPUT_DIRECTORIES = patterns.parse(b"build/\ndist/\ntarget/\nout/\nbin/\nobj/\n")
# Names of files that hold secrets. When a file is read, its content is checked as well.
SECRETS = patterns.parse(
    b"""\
.env
.env.*
*.env
!.env.example
!.env.sample
!.env.template
!.env.dist
!example.env
!sample.env
.envrc
*.pem
*.key
*.p12
*.pfx
*.jks
*.keystore
*.kdbx
*.ppk
*.gpg
*.asc
id_rsa*
id_dsa*
id_ecdsa*
id_ed25519*
.netrc
_netrc
.pgpass
.my.cnf
.npmrc
.pypirc
.htpasswd
.git-credentials
.dockercfg
.docker/config.json
.aws/credentials
.kube/config
.ssh/
.gnupg/
.vault-token
credentials.json
client_secret*.json
service-account*.json
service_account*.json
secrets.json
secrets.yml
secrets.yaml
secrets.toml
*.tfstate
*.tfstate.*
*.tfvars
*.tfvars.json
"""
)


def too_long(path: bytes) -> bool:
    """Return whether a path is too long to store. One byte of it takes at most four when stored."""
    return 4 * len(path) > LONGEST_PATH and len(path_text(path).encode()) > LONGEST_PATH
