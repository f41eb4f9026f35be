package telemetry

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rlsd/rlsd/internal/policy"
)

// Bounds of what is kept of requests that no rule is for.
const (
	maxMisses        = 128 // of distinct ones
	samplesPerSecond = 100
	maxMissEntries   = 16 // of one
	maxMissText      = 64 // bytes of a domain or a key
	maxMissValue     = 32 // bytes of a value, which may be a secret
)

// Misses is what was asked of late that no rule is for. Of each second only the
// first so many are looked at: the counts are of these.
type Misses struct {
	SamplesPerSecond int
	Skipped          int64  // how many were not looked at
	Recent           []Miss // the last seen first
}

// A Miss is one descriptor that no rule matched. Long texts are cut and end in
// …, and what does not print is escaped.
type Miss struct {
	Domain        string
	UnknownDomain bool
	Entries       []policy.Entry
	MoreEntries   int // that are not kept
	Count         int64
	First, Last   time.Time
}

// misses gathers them. No caller of see waits for another or for a report: who
// finds it busy skips.
type misses struct {
	window  atomic.Int64 // a second and how many samples it has had
	skipped atomic.Int64
	mu      sync.Mutex
	seen    map[string]*Miss // as they were asked, but for the cut
}

// windowBits hold the samples of a second.
const windowBits = 8

// see takes a sample unless this second has had its share. It keeps nothing of
// what it is given.
func (m *misses) see(now time.Time, domain string, d policy.Descriptor, unknown bool) {
	if !m.admit(now.Unix()) || !m.mu.TryLock() {
		m.skipped.Add(1)
		return
	}
	defer m.mu.Unlock()
	sample := &Miss{Domain: domain, UnknownDomain: unknown, Entries: d, First: now}
	if len(d) > maxMissEntries {
		sample.Entries, sample.MoreEntries = d[:maxMissEntries], len(d)-maxMissEntries
	}
	key := sample.key()
	known := m.seen[key]
	if known == nil {
		known = sample.copied()
		m.add(key, known)
	}
	known.Count++
	known.Last = now
}

// admit reports whether the second may have another sample, and counts it.
func (m *misses) admit(second int64) bool {
	for {
		before := m.window.Load()
		next := second<<windowBits | 1
		if before>>windowBits == second {
			next = before + 1
			if before&(1<<windowBits-1) >= samplesPerSecond {
				return false
			}
		}
		if m.window.CompareAndSwap(before, next) {
			return true
		}
	}
}

// add adds one, if need be in the place of the one that was not seen for longest.
func (m *misses) add(key string, miss *Miss) {
	if m.seen == nil {
		m.seen = make(map[string]*Miss, maxMisses)
	}
	if len(m.seen) >= maxMisses {
		oldest := ""
		for k, other := range m.seen {
			if oldest == "" || other.Last.Before(m.seen[oldest].Last) {
				oldest = k
			}
		}
		delete(m.seen, oldest)
	}
	m.seen[key] = miss
}

// key tells misses apart that are told apart when they are shown.
func (m *Miss) key() string {
	b := make([]byte, 0, 256)
	b = strconv.AppendBool(b, m.UnknownDomain)
	b = strconv.AppendInt(append(b, ' '), int64(m.MoreEntries), 10)
	b = appendCut(b, m.Domain, maxMissText)
	for _, e := range m.Entries {
		b = appendCut(appendCut(b, e.Key, maxMissText), e.Value, maxMissValue)
	}
	return string(b)
}

// appendCut appends what is kept of a text, with its length before it.
func appendCut(b []byte, text string, most int) []byte {
	kept := cut(text, most)
	b = strconv.AppendInt(append(b, ' '), int64(len(kept)), 10)
	return append(append(b, ':'), kept...)
}

// copied returns the miss in memory of its own, with its texts cut.
func (m *Miss) copied() *Miss {
	own := *m
	own.Domain = strings.Clone(cut(m.Domain, maxMissText))
	own.Entries = make([]policy.Entry, len(m.Entries))
	for i, e := range m.Entries {
		own.Entries[i] = policy.Entry{Key: strings.Clone(cut(e.Key, maxMissText)), Value: strings.Clone(cut(e.Value, maxMissValue))}
	}
	return &own
}

const ellipsis = "…"

// cut shortens a text to the most bytes, without parting a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

func (m *misses) report() Misses {
	m.mu.Lock()
	recent := make([]Miss, 0, len(m.seen))
	for _, miss := range m.seen {
		recent = append(recent, *miss)
	}
	m.mu.Unlock()
	slices.SortFunc(recent, func(a, b Miss) int { return b.Last.Compare(a.Last) })
	for i := range recent {
		recent[i].Domain = printable(recent[i].Domain)
		recent[i].Entries = slices.Clone(recent[i].Entries) // those kept stay as they are
		for j, e := range recent[i].Entries {
			recent[i].Entries[j] = policy.Entry{Key: printable(e.Key), Value: printable(e.Value)}
		}
	}
	return Misses{SamplesPerSecond: samplesPerSecond, Skipped: m.skipped.Load(), Recent: recent}
}

// printable escapes, as Go does, what a terminal would not show or would obey.
func printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		if r == utf8.RuneError || !strconv.IsPrint(r) || r == '\\' {
			_, size := utf8.DecodeRuneInString(text[i:])
			quoted := strconv.Quote(text[i : i+size])
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
