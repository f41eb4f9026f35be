package file_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

func TestParseEncodings(t *testing.T) {
	t.Parallel()
	unix := strings.ReplaceAll(rule("shop", "a"), "key: a", "key: a, value: \"two\n\n lines\"") + "---\n" + rule("edge", "b")
	want := outcome(file.Parse("f", []byte(unix)))
	for name, text := range map[string]string{
		"byte order mark":     "\ufeff" + unix,
		"Windows line breaks": strings.ReplaceAll(unix, "\n", "\r\n"),
		"Mac line breaks":     strings.ReplaceAll(unix, "\n", "\r"),
		"no last line break":  strings.TrimSuffix(unix, "\n"),
	} {
		if got := outcome(file.Parse("f", []byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}

	for text, want := range map[string]string{
		"\ufeffkye: 1\r\n\r\ndomain: x\r\nkye: 2\r\n": "f:1:1: kye: unknown key \"kye\", known here: domain, descriptors\n" +
			"f:4:1: kye: duplicate key \"kye\", first given on line 1",
		"domain: é\xff\n":               "f:1:10: not UTF-8: save the file in that encoding",
		"domain: x\n# \ufffd\n#\xc3\n":  "f:3:2: not UTF-8: save the file in that encoding",
		"\xff\xfed\x00o\x00m\x00\n\x00": "f:1:1: not UTF-8: save the file in that encoding",
	} {
		if got := outcome(file.Parse("f", []byte(text))); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestParsePlacesFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"domain: x\ndescriptors: 10 \t \n":         "f:2:14",
		"domain: x\ndescriptors: é b   \n":         "f:2:14",
		"domain: x\ndescriptors: x   # why\n":      "f:2:14",
		"domain: x\ndescriptors:   \"x\"   \n":     "f:2:16",
		"domain: x\ndescriptors: [{é: 1, é: 2}]\n": "f:2:15 f:2:16 f:2:22",
		"domain: x\ndescriptors:\n  x\n   y  \n":   "f:3:3",
		"# c\n---\n\n# c\n--- # c\nfoo: {\n":       "f:6:6",
		"--- {domain: x, foo: 1}\n":                "f:1:17",
	} {
		_, err := file.Parse("f", []byte(text))
		var got []string
		for _, fault := range faults(err) {
			got = append(got, fault.Source.String())
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestParseIsBounded holds that files made to overwhelm the parser are refused
// in good time. Without bounds, longer ones run out of stack, memory or time.
func TestParseIsBounded(t *testing.T) {
	t.Parallel()
	const many = 20_000
	lists := func(open, shut string) string {
		return "domain: " + strings.Repeat(open, many) + "x" + strings.Repeat(shut, many)
	}
	for name, text := range map[string]string{
		"brackets":             lists("[", "]"),
		"open brackets":        lists("[", ""),
		"braces":               lists("{a: ", "}"),
		"brackets with commas": lists("[a, ", "]"),
		"entries on a line":    strings.Repeat("- ", many),
		"complex keys":         strings.Repeat("? ", many),
		"tags":                 strings.Repeat("!!str ", many),
		"tags on lines":        strings.Repeat("!!str\n", many),
		"tags in brackets":     "[" + strings.Repeat("!!str ", many) + "]",
		"anchors":              strings.Repeat("&a ", many),
		"anchors on lines":     strings.Repeat("&a\n", many),
		"colons":               strings.Repeat("a: ", many),
		"keys":                 strings.Repeat("a: b\n", many),
		"keys with lists":      strings.Repeat("a:\n- b\n", many),
		"keys with literals":   strings.Repeat("a: |\n  b\n", many),
		"keys with flow":       strings.Repeat("a: {b: c}\n", many),
		"indented keys":        "a:\n" + strings.Repeat("  b: c\n", many),
		"aliases":              aliases(12),
		"merges":               merges(2_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			if got := outcome(file.Parse("f", []byte(text))); !strings.HasPrefix(got, "f:") {
				t.Errorf("got %.200s", got)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

// aliases returns descriptors that each lead to the one before tenfold.
func aliases(levels int) string {
	var b strings.Builder
	b.WriteString("domain: x\ndescriptors:\n- &n0 {key: k}\n")
	for i := range levels {
		fmt.Fprintf(&b, "- &n%d {key: k%d, descriptors: [%s]}\n", i+1, i, strings.Repeat(fmt.Sprintf("*n%d, ", i), 10))
	}
	return b.String()
}

// merges returns descriptors that each merge the one before and add a key.
func merges(levels int) string {
	var b strings.Builder
	b.WriteString("domain: x\ndescriptors:\n- &m0 {key: k}\n")
	for i := range levels {
		fmt.Fprintf(&b, "- &m%d {<<: *m%d, k%d: 1}\n", i+1, i, i)
	}
	return b.String()
}

func TestParseReportsSoManyFaults(t *testing.T) {
	t.Parallel()
	text := "domain: x\ndescriptors:\n" + strings.Repeat("- {}\n", 2_000)
	got := strings.Split(outcome(file.Parse("f", []byte(text))), "\n")
	if len(got) != 1_001 || got[0] != "f: more than 1000 faults, the rest is not shown" {
		t.Errorf("%d faults, the first %s", len(got), got[0])
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "../../../examples/*.yaml"} {
		for _, data := range goldenFiles(f, pattern) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		snapshot, err := file.Parse("f", data)
		if (snapshot == nil) == (err == nil) {
			t.Fatalf("got snapshot %v and error %v", snapshot, err)
		}
		lines := 1 + strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)), "\n")
		for _, fault := range faults(err) {
			if at := fault.Source; at.File != "f" || at.Line < 0 || at.Line > lines || (at.Line == 0) != (at.Column == 0) {
				t.Errorf("a fault outside the %d lines of the file: %v", lines, fault)
			}
			if strings.ContainsAny(fault.String(), "\n\r") {
				t.Errorf("a fault of several lines: %q", fault)
			}
		}
		if again, _ := file.Parse("f", data); err == nil && again.Hash() != snapshot.Hash() {
			t.Error("another hash when read again")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range 1_000 {
		fmt.Fprintf(&text, "  - key: user\n    value: u%d\n    rate_limit:\n      unit: second\n      requests_per_unit: %d\n", i, i)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := file.Parse("f", []byte(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}

func faults(err error) policy.Faults {
	faults, _ := err.(policy.Faults) //nolint:errorlint // what Parse returns is not wrapped
	return faults
}

// outcome lists the limits of a snapshot, or else the faults.
func outcome(snapshot *policy.Snapshot, err error) string {
	if err != nil {
		return err.Error()
	}
	var limits []string
	for _, l := range snapshot.Limits() {
		limits = append(limits, l.Domain+" "+l.Name)
	}
	return strings.Join(limits, ", ")
}
