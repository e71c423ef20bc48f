package figures

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Bar is one value of a group.
type Bar struct {
	Name  string
	Value float64
}

// Group is a row of bars that belong together.
type Group struct {
	Name string
	Bars []Bar
}

// Measures of the plot in pixels.
const (
	plotWidth   = 860
	labelWidth  = 210
	barHeight   = 16
	groupGap    = 14
	plotTop     = 56
	plotBottom  = 34
	valueMargin = 70
)

var barColours = []string{"#2563eb", "#94a3b8", "#f59e0b"}

// Plot draws groups of bars as an SVG with a logarithmic axis, in the unit of the
// values, which are above zero. Bars of one name have one colour.
func Plot(title, unit string, groups []Group) string {
	least, most := math.Inf(1), 0.0
	var names []string
	height := plotTop + plotBottom
	for _, g := range groups {
		height += len(g.Bars)*barHeight + groupGap
		for _, bar := range g.Bars {
			least, most = math.Min(least, bar.Value), math.Max(most, bar.Value)
			if !slices.Contains(names, bar.Name) {
				names = append(names, bar.Name)
			}
		}
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if to <= from {
		to = from + 1
	}
	x := func(value float64) float64 {
		return labelWidth + (math.Log10(value)-from)/(to-from)*(plotWidth-labelWidth-valueMargin)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="15">%s</text>`+"\n", html.EscapeString(title))
	for i, name := range names {
		left := 10 + i*200
		fmt.Fprintf(&b, `<rect x="%d" y="30" width="12" height="12" fill="%s"/><text x="%d" y="41">%s</text>`+"\n", left, colour(i), left+18, html.EscapeString(name))
	}
	for power := from; power <= to; power++ {
		at := x(math.Pow(10, power))
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e2e8f0"/>`, at, plotTop-4, at, height-plotBottom+4)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#475569">%s %s</text>`+"\n", at, height-plotBottom+20, number(math.Pow(10, power)), html.EscapeString(unit))
	}
	y := plotTop
	for _, g := range groups {
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", labelWidth-8, float64(y)+float64(len(g.Bars)*barHeight)/2+4, html.EscapeString(g.Name))
		for _, bar := range g.Bars {
			end := x(bar.Value)
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y+1, math.Max(end-labelWidth, 1), barHeight-2, colour(slices.Index(names, bar.Name)))
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="#334155">%s</text>`+"\n", end+5, y+barHeight-4, number(bar.Value))
			y += barHeight
		}
		y += groupGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func colour(i int) string { return barColours[i%len(barColours)] }

// number is the value with three digits that count.
func number(v float64) string { return fmt.Sprintf("%.3g", v) }
