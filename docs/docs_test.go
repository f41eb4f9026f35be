// Package docs_test keeps what the documentation shows and claims in step with
// what the code does. After a change that is meant,
//
//	go test ./docs/... -update
//
// draws the pictures and measures the tables again.
package docs_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlsd/rlsd/docs/plot"
	"github.com/rlsd/rlsd/internal/algo"
)

var update = flag.Bool("update", false, "write the pictures and tables instead of comparing them")

const stale = "%s is not what the code says; if that is right: go test ./docs/... -update"

func TestPictures(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range algo.All() {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			name := filepath.Join("algorithms", a.String()+".svg")
			drawn := plot.Draw(a)
			if len(drawn) > 40_000 {
				t.Errorf("%s has %d bytes", name, len(drawn))
			}
			if !strings.Contains(string(page), "]("+filepath.ToSlash(name)+")") {
				t.Errorf("algorithms.md does not show %s", name)
			}
			if *update {
				if err := os.WriteFile(name, drawn, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if committed, err := os.ReadFile(name); err != nil || !bytes.Equal(committed, drawn) {
				t.Errorf(stale, name)
			}
		})
	}
}

// TestGCRADecidesAsATokenBucket holds what the page says of their pictures.
func TestGCRADecidesAsATokenBucket(t *testing.T) {
	t.Parallel()
	renamed := bytes.ReplaceAll(plot.Draw(algo.GCRA), []byte("gcra"), []byte("token_bucket"))
	if !bytes.Equal(renamed, plot.Draw(algo.TokenBucket)) {
		t.Error("the pictures of gcra and token_bucket differ")
	}
}
