package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlsd/rlsd/internal/policy"
)

func TestKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	const longHash = "~9537c5fdf120482f7d58d25e9ed583f5"
	tests := []struct {
		name, domain string
		descriptor   policy.Descriptor
		want         string
	}{
		{"readable", "shop", policy.Descriptor{{"plan", "premium"}, {"user", "bob"}}, "shop/plan=premium/user=bob"},
		{"domain alone", "shop", nil, "shop"},
		{"empty parts", "", policy.Descriptor{{"", ""}, {"a", ""}}, "/=/a="},
		{"unreserved bytes stay", "s", policy.Descriptor{{"a", "b-_.:,;*!?@+&$|<>[]()'`^"}}, "s/a=b-_.:,;*!?@+&$|<>[]()'`^"},
		{"reserved bytes", "a/b", policy.Descriptor{{"k=", `~{}%#"\`}}, "a%2Fb/k%3D=%7E%7B%7D%25%23%22%5C"},
		{"space and control", "s", policy.Descriptor{{"k", " \x00\n\x7f"}}, "s/k=%20%00%0A%7F"},
		{"not ASCII, not UTF-8", "s", policy.Descriptor{{"é", "\xff"}}, "s/%C3%A9=%FF"},
		{"64 bytes stay", "s", policy.Descriptor{{"k", long[:64]}}, "s/k=" + long[:64]},
		{"a long whole is hashed", "s", policy.Descriptor{{"k", long[:64]}, {"k", long[:64]}, {"k", long[:64]}, {"k", long[:64]}}, "s/~be04c89b077570b156dec809a2f04e18"},
		{"65 bytes are hashed", long, policy.Descriptor{{long, long}}, longHash + "/" + longHash + "=" + longHash},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := policy.Key(test.domain, test.descriptor); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// FuzzKey holds that keys are equal exactly if what they name is. The texts are
// entries as fields apart by the byte 1, so that the fuzzer can move a boundary
// by moving a byte.
func FuzzKey(f *testing.F) {
	f.Add("d\x01a\x01b_c", "d\x01a_b\x01c")
	f.Add("x_y\x01a\x01b", "x\x01y_a\x01b")
	f.Add("d\x01a\x01b/c=d", "d\x01a\x01b\x01c\x01d")
	f.Add("d\x01a\x01%41", "d\x01a\x01A")
	f.Add("d\x01a\x01~9537c5fdf120482f7d58d25e9ed583f5", "d\x01a\x01"+strings.Repeat("x", 65))
	f.Add("d\x01\x01", "d")
	f.Fuzz(func(t *testing.T, first, second string) {
		d, e := fuzzedNames(first), fuzzedNames(second)
		same := d.domain == e.domain && slices.Equal(d.descriptor, e.descriptor)
		key, other := policy.Key(d.domain, d.descriptor), policy.Key(e.domain, e.descriptor)
		if (key == other) != same {
			t.Errorf("%+v and %+v: keys %s and %s", d, e, key, other)
		}
		for _, c := range []byte(key) {
			if c <= ' ' || c > '~' || strings.IndexByte(`{}"\`, c) >= 0 {
				t.Errorf("key %q holds %q", key, c)
			}
		}
		if len(key) > 256 {
			t.Errorf("key has %d bytes", len(key))
		}
	})
}

type fuzzedName struct {
	domain     string
	descriptor policy.Descriptor
}

func fuzzedNames(text string) fuzzedName {
	fields := strings.Split(text, "\x01")
	name := fuzzedName{domain: fields[0]}
	for fields = fields[1:]; len(fields) >= 2; fields = fields[2:] {
		name.descriptor = append(name.descriptor, policy.Entry{Key: fields[0], Value: fields[1]})
	}
	return name
}

func TestKeyAllocatesOnce(t *testing.T) {
	d := benchmarkDescriptor()
	if n := testing.AllocsPerRun(100, func() { policy.Key("shop", d) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKey(b *testing.B) {
	for name, value := range map[string]string{
		"plain":   "premium",
		"escaped": "/api/v1/users?page=2",
		"hashed":  strings.Repeat("x", 200),
	} {
		b.Run(name, func(b *testing.B) {
			d := policy.Descriptor{{Key: "plan", Value: value}, {Key: "user", Value: "bob"}}
			b.ReportAllocs()
			for b.Loop() {
				policy.Key("shop", d)
			}
		})
	}
}
