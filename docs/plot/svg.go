package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The colours follow the reader's theme; the picture has its own ground, so
// that it can be read where the page's theme is another than the reader's.
const style = `<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.h{font-size:16px;font-weight:600}.b{font-weight:600}.m{fill:#59636e}.s{font-size:11px;fill:#59636e}.e{text-anchor:end}.c{text-anchor:middle}
.bg{fill:#fff;stroke:#d1d9e0}.g{stroke:#d1d9e0;fill:none}.w{stroke:#9aa4af;stroke-dasharray:2 3;fill:none}
.a{fill:#0969da}.d{fill:none;stroke:#bc4c00}.l{fill:none;stroke:#1a7f37;stroke-width:1.5}.f{fill:#1a7f37;fill-opacity:.12}.o{stroke:#0969da;stroke-width:1.5}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}.m,.s{fill:#9198a1}.bg{fill:#0d1117;stroke:#3d444d}.g{stroke:#3d444d}.w{stroke:#656c76}
.a{fill:#4493f8}.d{stroke:#f0883e}.l{stroke:#3fb950}.f{fill:#3fb950}.o{stroke:#4493f8}}
</style>`

// A canvas gathers the elements of an SVG.
type canvas []string

func (c *canvas) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

func (c *canvas) text(class string, x, y float64, text string) {
	c.add("<text class=%q x=%q y=%q>%s</text>", class, num(x), num(y), text)
}

// titled is a name at the margin, and what there is to say of it.
func (c *canvas) titled(class string, y float64, name, text string) {
	c.add(`<text x="16" y=%q><tspan class=%q>%s</tspan><tspan class="m" dx="8">%s</tspan></text>`, num(y), class, name, text)
}

func (c *canvas) path(class string, p *path) {
	if len(*p) > 0 {
		c.add("<path class=%q d=%q/>", class, strings.Join(*p, ""))
	}
}

// A path gathers shapes that are drawn alike.
type path []string

func (p *path) add(parts ...string) *path {
	*p = append(*p, parts...)
	return p
}

func (p *path) box(x, y, w, h float64) *path {
	return p.add("M", num(x), " ", num(y), "h", num(w), "v", num(h), "h", num(-w), "z")
}

func (p *path) vertical(x, from, to float64) *path {
	return p.add("M", num(x), " ", num(from), "V", num(to))
}

func (p *path) horizontal(y, from, to float64) *path {
	return p.add("M", num(from), " ", num(y), "H", num(to))
}

// through is a line through the values, which are 1 apart, without the points
// that lie on the line between their neighbours.
func (p *path) through(values []int64, x, y func(v int64) float64) *path {
	command := "M"
	for i, v := range values {
		if i > 0 && i < len(values)-1 && v-values[i-1] == values[i+1]-v {
			continue
		}
		p.add(command, num(x(int64(i))), " ", num(y(v)))
		command = "L"
	}
	return p
}

// num is a coordinate to a hundredth.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}
