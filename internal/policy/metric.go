package policy

import "strings"

const (
	maxMetricValue  = 64 // bytes of one value in a metric
	maxMetricValues = 16 // values
)

// MetricValue returns what metrics tell apart of the descriptors that the rule
// is for, such as user=bob: the entries that configuration says, of one with
// share_threshold the pattern. It is printable ASCII of bounded length, and
// empty if nothing is to be told apart.
func (r *Rule) MetricValue(d Descriptor) string {
	if r.metric == nil {
		return ""
	}
	parts := make([]string, 0, len(d))
	for i := range d {
		if !r.metric[i] || len(parts) == maxMetricValues {
			continue
		}
		value := d[i].Value
		if r.entries != nil && r.entries[i].shared != "" {
			value = r.entries[i].shared
		}
		parts = append(parts, short(d[i].Key)+"="+short(value))
	}
	return strings.Join(parts, "/")
}

func short(text string) string {
	return string(appendEscaped(nil, text[:min(len(text), maxMetricValue)]))
}
