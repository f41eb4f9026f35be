package docs_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rlsd/rlsd/docs/plot"
	"github.com/rlsd/rlsd/internal/algo"
)

// page is where the tables stand, each between
//
//	<!-- measured: NAME -->
//	<!-- end of NAME -->
const page = "algorithms.md"

// TestTables measures every table again. All traffic comes from fixed seeds, so
// that they come out alike on every machine.
func TestTables(t *testing.T) {
	t.Parallel()
	var editing sync.Mutex
	for name, measure := range map[string]func(t *testing.T) table{
		"pictures": picturesTable,
		"example":  exampleTable,
		"worst":    worstTable,
		"wrong":    wrongTable,
		"rate":     rateTable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measured := measure(t).String()
			editing.Lock()
			defer editing.Unlock()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			begin, end := "<!-- measured: "+name+" -->\n", "<!-- end of "+name+" -->"
			before, rest, ok := strings.Cut(string(text), begin)
			written, after, closed := strings.Cut(rest, end)
			switch {
			case !ok || !closed:
				t.Fatalf("%s has no place for the table %s", page, name)
			case written == measured:
			case !*update:
				t.Errorf(stale+"\n%s", page, measured)
			default:
				if err := os.WriteFile(page, []byte(before+begin+measured+end+after), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A table is a header and rows.
type table [][]string

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	*t = append(*t, row)
}

// String returns the table in Markdown. Columns after the first are aligned to
// the right if they hold numbers.
func (t table) String() string {
	var b strings.Builder
	for i, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i > 0 {
			continue
		}
		for _, cell := range t[1] {
			if cell != "" && strings.ContainsRune("0123456789", rune(cell[0])) {
				b.WriteString("|---:")
			} else {
				b.WriteString("|---")
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// picturesTable counts what the pictures show.
func picturesTable(*testing.T) table {
	head := []any{""}
	for _, traffic := range plot.All() {
		head = append(head, strings.ToLower(traffic.Name))
	}
	var t table
	t.row(head...)
	for _, a := range algo.All() {
		row := []any{"`" + a.String() + "`"}
		for _, traffic := range plot.All() {
			r := plot.Play(a, traffic)
			row = append(row, fmt.Sprintf("%d of %d, at most %d", r.Admitted, len(r.Decisions), r.Most))
		}
		t.row(row...)
	}
	return t
}

// exampleTable is the worked example of the sliding window counter.
func exampleTable(*testing.T) table {
	l := &algo.Limit{Algorithm: algo.SlidingWindowCounter, Quota: 50, Window: 60 * second}
	var s algo.State
	var t table
	t.row("at", "request of", "answer", "remaining", "retry after")
	for _, q := range []struct{ at, cost int64 }{{0, 42}, {75 * second, 18}, {75 * second, 1}, {75 * second, 1}, {75*second + 714_286, 1}} {
		d := algo.Step(&s, l, epoch+q.at, q.cost, 0)
		answer, wait := "admitted", ""
		if !d.Allowed {
			answer, wait = "denied", seconds(d.RetryAfter)
		}
		t.row(seconds(q.at), q.cost, answer, d.Remaining, wait)
	}
	return t
}

// seconds writes microseconds as seconds.
func seconds(micros int64) string {
	if micros%second == 0 {
		return fmt.Sprintf("%d s", micros/second)
	}
	return fmt.Sprintf("%d.%06d s", micros/second, micros%second)
}

// thousands groups the digits of a number.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
