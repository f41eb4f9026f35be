package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A mutant is one line of testdata/mutants.txt: in the file, which is one
// below internal/, something else is planted in place of what stands there.
type mutant struct {
	line           int
	file           string
	there, planted string
	nth, of        int
	equivalent     string // why nobody can tell it from the original, if so
}

func (m mutant) String() string {
	nth := ""
	if m.of > 1 {
		nth = fmt.Sprintf(" (%d of %d)", m.nth, m.of)
	}
	planted := m.planted
	if planted == "" {
		planted = "(nothing)"
	}
	return fmt.Sprintf("%s: %s%s → %s", m.file, m.there, nth, planted)
}

// path is the name of the file on disk.
func (m mutant) path() string { return filepath.Join("..", "..", filepath.FromSlash(m.file)) }

// text returns the file with the mutant planted.
func (m mutant) text() (string, error) {
	original, err := os.ReadFile(m.path())
	if err != nil {
		return "", err
	}
	parts := strings.Split(string(original), m.there)
	if found := len(parts) - 1; found != m.of {
		return "", fmt.Errorf("line %d: %q stands %d times in %s, not %d", m.line, m.there, found, m.file, m.of)
	}
	return strings.Join(parts[:m.nth], m.there) + m.planted + strings.Join(parts[m.nth:], m.there), nil
}

var nthOf = regexp.MustCompile(` \((\d+) of (\d+)\)$`)

// readTable returns the mutants of the table. A line is
//
//	file | what stands there [(n of m)] | what is planted [| why it cannot matter]
//
// where nothing planted is written (nothing), and # begins a comment.
func readTable(t *testing.T) []mutant {
	t.Helper()
	table, err := os.ReadFile(filepath.Join("testdata", "mutants.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var mutants []mutant
	for i, line := range strings.Split(string(table), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 && len(cells) != 4 {
			t.Fatalf("line %d has %d cells: %s", i+1, len(cells), line)
		}
		m := mutant{line: i + 1, file: strings.TrimSpace(cells[0]), nth: 1, of: 1}
		m.there, m.planted = strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if found := nthOf.FindStringSubmatch(m.there); found != nil {
			m.nth, _ = strconv.Atoi(found[1])
			m.of, _ = strconv.Atoi(found[2])
			m.there = strings.TrimSuffix(m.there, found[0])
		}
		if m.planted == "(nothing)" {
			m.planted = ""
		}
		if len(cells) == 4 {
			m.equivalent = strings.TrimSpace(cells[3])
		}
		if m.nth < 1 || m.nth > m.of {
			t.Fatalf("line %d: %d of %d", i+1, m.nth, m.of)
		}
		mutants = append(mutants, m)
	}
	return mutants
}

// TestTable holds that every mutant can be planted, so that who changes a file
// learns at once which of its mutants to tell anew.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, m := range readTable(t) {
		text, err := m.text()
		if err != nil {
			t.Error(err)
			continue
		}
		if m.there == m.planted {
			t.Errorf("line %d plants what stands there", m.line)
		}
		if line, twice := seen[m.file+text]; twice {
			t.Errorf("line %d plants what line %d does", m.line, line)
		}
		seen[m.file+text] = m.line
	}
}
