"""Words of identifiers, the same for files, queries and word indexes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages.identifiers import MAX_WORD, find_names, fold_name, split, split_text

CASES = {
    "getUserById": "get user by id getuserbyid",
    "user_repository": "user repository user_repository",
    "HttpClient": "http client httpclient",
    "HTTPServer2": "http server 2 httpserver2",
    "parseHTTPResponse": "parse http response parsehttpresponse",
    "sha256sum": "sha 256 sum sha256sum",
    "MAX_RETRIES": "max retries max_retries",
    "my-web-component": "my web component my-web-component",
    "data-testId": "data test id testid data-testid",
    "UserService.getUser": "user service userservice get user getuser",
    "std::vector::push_back": "std vector push back push_back",
    "self->nextNode": "self next node nextnode",
    "user_service.py": "user service user_service py",
    "src/app/UserService.test.tsx": "src app user service userservice test tsx",
    "__init__": "init",
    "_private_name": "private name private_name",
    "word": "word",
    "URL": "url",
    "x": "x",
    "8080": "8080",
    "größeÄndern": "große andern großeandern",
    "café": "cafe",
    "имяПользователя": "имя пользователя имяпользователя",
    "用户名": "用户 户名",
    "税": "税",
    "用户Id2": "用户 id 2 id2",
    "第二章getUser方法": "第二 二章 get user getuser 方法",
    "ユーザーID": "ユー ーザ ザー id",
    "a - b": "a b",
    "": "",
    "___": "",
    "!?": "",
}


@pytest.mark.parametrize(("token", "words"), CASES.items())
def test_split(token: str, words: str) -> None:
    assert " ".join(split(token)) == words
    assert split_text(token) == words


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)


@given(names)
def test_parts_make_up_the_whole_which_comes_last(name: str) -> None:
    words = split(name)
    full_name = name.strip("_").lower()
    assert words[-1:] == ((full_name,) if full_name else ())
    parts = words[:-1] or words
    assert "".join(parts) == full_name.replace("_", "")


@given(st.lists(st.from_regex(r"[A-Z][a-z]{1,6}", fullmatch=True), min_size=1, max_size=5))
def test_humps_are_words(humps: list[str]) -> None:
    assert split("".join(humps))[: len(humps)] == tuple(hump.lower() for hump in humps)


@given(st.text(), st.text())
def test_texts_split_on_their_own_or_together(first: str, second: str) -> None:
    assert (
        split_text(f"{first} {second}").split()
        == split_text(first).split() + split_text(second).split()
    )


@given(st.text())
def test_no_word_is_blank_long_or_cased(text: str) -> None:
    for word in split_text(text).split(" "):
        assert len(word) <= MAX_WORD * 3  # lower case may be longer
        assert word == word.strip()
        assert not any("A" <= character <= "Z" for character in word)


@given(names)
def test_both_ways_to_find_humps_agree(name: str) -> None:
    foreign = split(f"{name}ж")  # not ASCII: the general way
    assert "".join(foreign[:-1] or foreign) == name.replace("_", "").lower() + "ж"


def test_a_long_word_stays_in_one_piece() -> None:
    assert split("aB" * 500) == (("ab" * 500)[:MAX_WORD],)


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_in_ascii_has_the_words_that_it_has_beside_others(text: str) -> None:
    assert split_text(f"{text} ж") == f"{split_text(text)} ж".strip()


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("_load_settings", "load_settings"),
        ("loadSettings_", "loadsettings"),
        ("__private", "private"),
        ("__init__", "__init__"),
        ("_", ""),
    ],
)
def test_spellings_of_one_name_are_folded(name: str, folded: str) -> None:
    assert fold_name(name) == folded


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("retry", ("retry",)),
        ("http.Client", ("http.Client", "Client")),
        ("std::vector", ("std::vector", "vector")),
        ("obj->field", ("obj->field", "field")),
        (r"App\User", (r"App\User", "User")),
        ("user.save()", ("user.save", "save")),
        ("where is parse_config and HttpClient", ("parse_config", "HttpClient")),
        ("how does HTTPServer read JSON", ("HTTPServer",)),
        ("wie liest 用户 42", ()),
        ("parse the config", ()),
        ("", ()),
    ],
)
def test_names_of_code_in_a_query(text: str, names: tuple[str, ...]) -> None:
    assert find_names(text) == names
