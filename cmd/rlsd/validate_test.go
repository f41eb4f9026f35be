package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestValidateSumsUpWhatIsRight(t *testing.T) {
	code, stdout, stderr := rlsd(t, "validate", write(t, goodPolicy))
	if code != exitDone || stderr != "" || !regexp.MustCompile(`^ok: 1 domain, 2 limits, hash [0-9a-f]+\n$`).MatchString(stdout) {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

func TestValidateListsWhatIsWrong(t *testing.T) {
	path := write(t, badPolicy)
	code, stdout, stderr := rlsd(t, "validate", path)
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if code != exitFault || stdout != "" || len(lines) != 2 ||
		!strings.HasPrefix(lines[0], path+":4:") || !strings.HasPrefix(lines[1], path+":6:") {
		t.Errorf("%d %q\n%s", code, stdout, stderr)
	}
	if code, _, again := rlsd(t, "serve", "--config", path); code != exitFault || again != stderr {
		t.Errorf("serve says %d\n%s\nvalidate says\n%s", code, again, stderr)
	}
}

func TestValidateInJSON(t *testing.T) {
	for text, want := range map[string]verdict{
		goodPolicy: {OK: true, Domains: 1, Limits: 2},
		badPolicy:  {Faults: []fault{{Line: 4}, {Line: 6}}},
	} {
		path := write(t, text)
		code, stdout, stderr := rlsd(t, "validate", "--output", "json", path)
		var got verdict
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		if stderr != "" || (code == exitDone) != want.OK || (got.Hash != "") != want.OK {
			t.Errorf("%d %s %s", code, stdout, stderr)
		}
		if got.OK != want.OK || got.Domains != want.Domains || got.Limits != want.Limits || len(got.Faults) != len(want.Faults) {
			t.Errorf("got %+v, want %+v", got, want)
			continue
		}
		for i, f := range got.Faults {
			if f.File != path || f.Line != want.Faults[i].Line || f.Column == 0 || f.Path == "" || f.Message == "" {
				t.Errorf("fault %d is %+v", i, f)
			}
		}
	}
}

func TestValidateSaysWhatIsNotThere(t *testing.T) {
	code, stdout, stderr := rlsd(t, "validate", "nowhere.yaml")
	if code != exitFault || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "nowhere.yaml") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ = rlsd(t, "validate", "--output", "json", "nowhere.yaml")
	var got verdict
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitFault || len(got.Faults) != 1 ||
		!strings.Contains(fmt.Sprint(got.Faults), "nowhere.yaml") {
		t.Errorf("%d %v %s", code, err, stdout)
	}
}
