package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/client"
)

func TestDescriptorsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]client.Entry{
		"user=bob":                {{Key: "user", Value: "bob"}},
		"plan=premium,user=bob":   {{Key: "plan", Value: "premium"}, {Key: "user", Value: "bob"}},
		"demo":                    {{Key: "demo"}},
		"demo=":                   {{Key: "demo"}},
		"a,b=,c=d":                {{Key: "a"}, {Key: "b"}, {Key: "c", Value: "d"}},
		"path=/x?a=b&c=d":         {{Key: "path", Value: "/x?a=b&c=d"}},
		`name=Doe\, Jane`:         {{Key: "name", Value: "Doe, Jane"}},
		`a\=b=c\=d`:               {{Key: "a=b", Value: "c=d"}},
		`a\,b,c=\\`:               {{Key: "a,b"}, {Key: "c", Value: `\`}},
		"schlüssel=größe \t\x00x": {{Key: "schlüssel", Value: "größe \t\x00x"}},
		"a= b ":                   {{Key: "a", Value: " b "}},
	} {
		var d descriptor
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, d.entries); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if d.text != text {
			t.Errorf("%s is kept as %s", text, d.text)
		}
	}
}

func TestWrongDescriptorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":          "without a key",
		"=b":        "without a key",
		"a=b,":      "without a key",
		",a=b":      "without a key",
		"a=b,,c=d":  "without a key",
		`a=\d`:      "backslash",
		`a=b\`:      "backslash",
		`\`:         "backslash",
		"a=\xff":    "not UTF-8",
		"\xc3=oops": "not UTF-8",
	} {
		if err := new(descriptor).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
