package bundle

import (
	"strings"
	"testing"
)

// TestRedactText has credentials in the forms of logs and arguments. Each contains the text hidden.
func TestRedactText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://:hidden@redis:6379/0":                                    "redis://REDACTED@redis:6379/0",
		"https://user:hidden@example.com/x":                               "https://REDACTED@example.com/x",
		"clone https://hidden@github.com/a/b":                             "clone https://REDACTED@github.com/a/b",
		"Authorization: Token hidden":                                     "Authorization: REDACTED",
		"authorization=ApiKey hidden, more":                               "authorization=REDACTED",
		"Cookie: a=hidden; b=hidden\nnext":                                "Cookie: REDACTED\nnext",
		"Set-Cookie: session=hidden; Path=/":                              "Set-Cookie: REDACTED",
		"passphrase=hidden credential: hidden":                            "passphrase=REDACTED credential: REDACTED",
		"MYSQL_PWD=hidden":                                                "MYSQL_PWD=REDACTED",
		"a b c\nhidden\nT hidden=\nT -----END RSA PRIVATE KEY-----\nnext": "a b c\nREDACTED\nnext",
		"Bearer hiddenhidden.":                                            "Bearer REDACTED",
		"GET http://shop.example.com/a?b=c 200 @":                         "GET http://shop.example.com/a?b=c 200 @",
	} {
		if got := newRedactor().text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestRedactObject has credentials by the names of fields and variables, and fields that only refer to a Secret.
func TestRedactObject(t *testing.T) {
	t.Parallel()
	const object = `{"kind": "Deployment", "env": [{"name": "DB_PWD", "value": "hidden"}, {"name": "REDIS_AUTH", "value": "hidden"},
		{"name": "AUTHOR", "value": "shown-author"}], "tokens": ["hidden", "hidden"], "imagePullSecrets": [{"name": "shown-secret"}],
		"args": ["--token", "hidden", "--tls-secret", "shown-name"]}`
	text, err := newRedactor().object([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hidden") {
		t.Errorf("a credential remains:\n%s", text)
	}
	for _, want := range []string{"shown-author", "shown-secret", "shown-name"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
}
