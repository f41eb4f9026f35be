package plot

import (
	"fmt"
	"strings"

	"github.com/rlsd/rlsd/internal/algo"
)

// The measures of a picture.
const (
	width     = 820.0
	left      = 84.0
	perSecond = 180.0
	right     = left + perSecond*span/second
	bin       = 50 * millisecond // requests of so long share a column
	strip     = 40.0             // height of the level
	queueLane = 14.0             // height of what goes on, of a queue
)

// Draw returns the picture of an algorithm.
func Draw(a algo.Algorithm) []byte {
	var body canvas
	header(&body, a)
	y := 48.0
	for _, t := range All() {
		y = panel(&body, a, Play(a, t), y)
	}

	var c canvas
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img">`, num(width), num(y))
	c.add("<title>%s: what it admits of bursts, of a steady overload and of a boundary attack</title>", a)
	c.add(style)
	c.add(`<rect class="bg" x=".5" y=".5" width=%q height=%q rx="6"/>`, num(width-1), num(y-1))
	c = append(c, body...)
	c.add("</svg>\n")
	return []byte(strings.Join(c, "\n"))
}

// header names the algorithm, its limit and the signs.
func header(c *canvas, a algo.Algorithm) {
	limit := "10 per second"
	if a.IsBucket() {
		limit += ", burst 10"
	}
	c.titled("h", 28, a.String(), limit)
	x := 548.0
	if a == algo.LeakyBucket {
		x -= 60
	}
	c.path("a", new(path).box(x, 19, 9, 9))
	c.text("m", x+15, 28, "admitted")
	c.path("d", new(path).box(x+83.5, 19.5, 8, 8))
	c.text("m", x+98, 28, "denied")
	c.path("l", new(path).horizontal(24, x+155, x+173))
	c.text("m", x+179, 28, levelName(a))
	if a == algo.LeakyBucket {
		c.path("o", new(path).vertical(x+236, 19, 28).vertical(x+240, 19, 28))
		c.text("m", x+248, 28, "goes on")
	}
}

func levelName(a algo.Algorithm) string {
	if a == algo.LeakyBucket {
		return "delay"
	}
	return "remaining"
}

// panel draws a result below y and returns where the next one goes.
func panel(c *canvas, a algo.Algorithm, r Result, y float64) float64 {
	c.titled("b", y+16, r.Traffic.Name, r.Traffic.Text)
	c.text("m e", right, y+16, fmt.Sprintf("%d of %d admitted, at most %d within a second", r.Admitted, len(r.Decisions), r.Most))

	top := y + 28
	floor := top + blocksHeight(r.Traffic)
	from, to := floor+8, floor+8+strip
	bottom := to
	if a == algo.LeakyBucket {
		bottom += queueLane
	}
	grid(c, top, bottom)
	blocks(c, r, floor)
	c.path("g", new(path).horizontal(floor, left, right).horizontal(to, left, right))
	c.text("s e", left-8, (top+floor)/2+4, "requests")
	levels(c, a, r, from, to)
	if a == algo.LeakyBucket {
		departures(c, r, to+4, bottom)
	}
	return bottom + 28
}

// grid draws the boundaries of windows.
func grid(c *canvas, top, bottom float64) {
	var lines path
	for s := range span/second + 1 {
		x := left + perSecond*float64(s)
		lines.vertical(x, top, bottom)
		c.text("s c", x, bottom+13, fmt.Sprintf("%d s", s))
	}
	c.path("w", &lines)
}

func blocksHeight(t Traffic) float64 {
	height, most := make(map[int64]int), 0
	for _, at := range t.Requests {
		height[at/bin]++
		most = max(most, height[at/bin])
	}
	return float64(most) * t.block
}

// blocks stacks a block for each request, in order from the floor up.
func blocks(c *canvas, r Result, floor float64) {
	const size = perSecond * bin / second
	height := make(map[int64]float64)
	var admitted, denied path
	for i, at := range r.Traffic.Requests {
		x := left + size*float64(at/bin)
		height[at/bin] += r.Traffic.block
		y := floor - height[at/bin]
		if r.Decisions[i].Allowed {
			admitted.box(x+1, y, size-2, r.Traffic.block-1)
		} else {
			denied.box(x+1.5, y+.5, size-3, r.Traffic.block-2)
		}
	}
	c.path("a", &admitted)
	c.path("d", &denied)
}

// levels draws what remains or, of a queue, the delay.
func levels(c *canvas, a algo.Algorithm, r Result, from, to float64) {
	line := new(path).through(r.levels,
		func(ms int64) float64 { return left + perSecond*float64(ms)*millisecond/second },
		func(level int64) float64 { return to - (to-from)*float64(level)/1000 })
	c.path("l", line)
	line.add("V", num(to), "H", num(left), "z")
	c.path("f", line)
	full := "10"
	if a == algo.LeakyBucket {
		full = "1 s"
	}
	c.text("s e", left-8, from+5, full)
	c.text("s e", left-8, (from+to)/2+4, levelName(a))
	c.text("s e", left-8, to+1, "0")
}

// departures marks when what was admitted goes on.
func departures(c *canvas, r Result, from, to float64) {
	var marks path
	for i, d := range r.Decisions {
		if at := r.Traffic.Requests[i] + d.Delay; d.Allowed && at < span {
			marks.vertical(left+perSecond*float64(at)/second, from, to)
		}
	}
	c.path("o", &marks)
	c.text("s e", left-8, to+2, "goes on")
}
