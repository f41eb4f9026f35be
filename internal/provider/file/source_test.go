package file

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileThatChangesWhileItIsReadIsLeftForTheNextLook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte("domain: shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := look([]string{path})[0]
	s, ok := load(e, nil)
	if !ok || len(s.documents) != 1 {
		t.Errorf("a file at rest: %+v, %v", s, ok)
	}
	if again, ok := load(e, s); again != s || !ok {
		t.Errorf("the same again: %+v, %v", again, ok)
	}
	if err := os.WriteFile(path, []byte("domain: shop\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := load(e, s); ok {
		t.Error("it is taken though it is not what was looked at")
	}
	w := Watcher{sources: map[string]*source{path: s}, taken: map[string]stamp{path: e.stamp}}
	if got, at := w.reload(e); got != s || at != e.stamp {
		t.Errorf("what was known is lost: %+v", got)
	}
}
