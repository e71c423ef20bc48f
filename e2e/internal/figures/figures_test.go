package figures

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestQuantilesAreNearestRanks(t *testing.T) {
	var s Sample
	for i := 100; i > 0; i-- {
		s = append(s, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, .5: 50, .501: 51, .99: 99, 1: 100} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if s[0] != 100 {
		t.Error("the sample was sorted in place")
	}
	if got := (Sample{}).Quantile(.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestExponentTellsFlatFromLinear(t *testing.T) {
	for name, c := range map[string]struct {
		grow func(float64) float64
		want float64
	}{
		"flat": {func(float64) float64 { return 7 }, 0}, "linear": {func(x float64) float64 { return 3 * x }, 1},
		"square root": {math.Sqrt, .5},
	} {
		var points []Point
		for _, x := range []float64{100, 1000, 10000} {
			points = append(points, Point{x, c.grow(x)})
		}
		if got := Exponent(points); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := Exponent([]Point{{100, 1}}); !math.IsNaN(got) {
		t.Errorf("of one size: %v", got)
	}
}

func TestTableLinesUp(t *testing.T) {
	want := "| call | ms |\n|------|----|\n| é    | 12 |\n"
	if got := Table([][]string{{"call", "ms"}, {"é", "12"}}); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestPlotIsWellFormedAndHasEveryValue(t *testing.T) {
	svg := Plot("a < b", "ms", []Group{
		{"create", []Bar{{"DISTORT", 12.34}, {"floor", 10}}}, {"delete & more", []Bar{{"DISTORT", 1}, {"floor", 1234}}},
	})
	decoder := xml.NewDecoder(strings.NewReader(svg))
	rects := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != 1+2+4 { // the ground, the legend, the bars
		t.Errorf("%d rectangles", rects)
	}
	for _, text := range []string{"a &lt; b", "delete &amp; more", ">12.3<", ">1.23e+03<", "floor"} {
		if !strings.Contains(svg, text) {
			t.Errorf("no %q in:\n%s", text, svg)
		}
	}
}

func TestPlotOfOneValue(t *testing.T) {
	if svg := Plot("one", "s", []Group{{"g", []Bar{{"b", 10}}}}); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error(svg)
	}
}
