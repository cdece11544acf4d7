package page

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// Charts are drawn for the width of a phone, in points that the page takes for pixels.
const (
	width    = 340 * vg.Length(1)
	fontSize = 11
	// room is the size by which texts are measured: the page's font may be wider than that of
	// the drawing.
	room = fontSize * 1.18
)

// hues is how many colours there are. Systems beyond have the dashes and the mark of another.
const hues = 10

// hue stands for the colour of a system in a drawing. The page says what it is, by light and
// by dark.
func hue(i int) color.Color {
	return color.NRGBA{R: 0x0a, G: 0x0b, B: uint8(i%hues) + 1, A: 0xff}
}

// faint stands for the colour of grid lines.
var faint = color.NRGBA{R: 0x0a, G: 0x0c, B: 1, A: 0xff}

// inPage puts the colours of the page in the place of those of a drawing.
var inPage = func() *strings.Replacer {
	pairs := []string{"#000000", "currentColor", svgColor(faint), "var(--faint)"}
	for i := range hues {
		pairs = append(pairs, svgColor(hue(i)), fmt.Sprintf("var(--hue%d)", i))
	}
	return strings.NewReplacer(pairs...)
}()

func svgColor(c color.Color) string {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02X%02X%02X", n.R, n.G, n.B)
}

// ordinary is a plot of the page's font and colours.
func ordinary() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = room, room
		a.Padding = 4
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// The parts of a drawing that the page decides on: its font, and its size on the screen.
var (
	ownFont     = regexp.MustCompile(`font-family:[^;"]*;(font-variant:[^;"]*;)?(font-weight:[^;"]*;)?(font-style:[^;"]*;?)?`)
	ownFontSize = regexp.MustCompile(`font-size:[0-9.]+px`)
	ownSize     = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*"`)
)

// svg draws a plot. label says what it shows to who does not see it.
func svg(p *plot.Plot, height vg.Length, label string) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 2, -18, 2, -6)) // the last label of an axis reaches beyond it
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	text := out.String()
	if at := strings.Index(text, "<svg "); at > 0 { // without the prologue of a document
		text = text[at:]
	}
	text = ownFont.ReplaceAllString(inPage.Replace(text), "")
	text = ownFontSize.ReplaceAllString(text, fmt.Sprintf("font-size:%dpx", fontSize))
	text = ownSize.ReplaceAllLiteralString(text, `<svg role="img" aria-label="`+template.HTMLEscapeString(label)+`"`)
	return template.HTML(text), nil //nolint:gosec // vgsvg escapes the texts in it, and the label is escaped
}

// line is one system in a chart of lines.
type line struct {
	system int // its place among all systems
	points []rlab.Point
}

// zero is where 0 stands on a logarithmic axis. most is the end of every axis: a file may hold
// any number.
const (
	zero = 0.5
	most = 1e12
)

func within(v, low, high float64) float64 { return min(max(v, low), high) }

// lines draws how a value grew, both axes logarithmic.
func lines(label, y string, all []line) (template.HTML, error) {
	p := ordinary()
	p.X.Label.Text, p.Y.Label.Text = "times said", y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 1, zero, 1
	for _, l := range all {
		var xy plotter.XYs
		for _, at := range l.points {
			said, value := within(float64(at.Said), 1, most), within(at.Value, zero, most)
			xy = append(xy, plotter.XY{X: said, Y: value})
			p.X.Max, p.Y.Max = max(p.X.Max, said), max(p.Y.Max, value)
		}
		drawn, err := plotter.NewLine(xy)
		if err != nil {
			return "", err
		}
		drawn.Color, drawn.Width = hue(l.system), 1.6
		drawn.Dashes = dashes(l.system)
		p.Add(drawn)
	}
	p.X.Max, p.Y.Max = max(p.X.Max, 2), max(p.Y.Max*1.2, 2)
	p.X.Tick.Marker, p.Y.Tick.Marker = powers(1, p.X.Max), powers(0, p.Y.Max)
	return svg(p, 230, label)
}

// dashes are those of a system: lines that lie on each other can be told apart.
func dashes(system int) []vg.Length {
	return [][]vg.Length{nil, {5, 3}, {2, 2}, {7, 2, 2, 2}, {10, 4}, {3, 5}}[system%6]
}

// powers are ticks at powers of ten, from a first value on that may be 0.
func powers(first, last float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	if first == 0 {
		ticks = append(ticks, plot.Tick{Value: zero, Label: "0"})
	}
	for v := 1.0; v <= last; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: v, Label: plainly(v)})
	}
	return ticks
}

// wholes are ticks at a few whole numbers from 0 on.
func wholes(last float64) plot.ConstantTicks {
	step := max(math.Ceil(last/4), 1)
	var ticks plot.ConstantTicks
	for v := 0.0; v <= last; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: plainly(v)})
	}
	return ticks
}

// plainly is a number without an exponent.
func plainly(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// mark is a value of a system in a chart of marks, with its interval.
type mark struct {
	low, value, high float64
	hollow           bool // the second of two values
}

// row is one system in a chart of marks.
type row struct {
	name   string
	system int
	marks  []mark
}

// scale is how an axis of values is drawn.
type scale int

const (
	share   scale = iota // 0 to 100 %
	plain                // from 0 on
	logTime              // logarithmic
)

// ends are where the axes begin.
var ends = [...]float64{share: 0, plain: 0, logTime: 1e-4}

// marks draws a line for each system, with its values as marks and their intervals as bars.
func marks(label, x string, rows []row, of scale) (template.HTML, error) {
	p := ordinary()
	p.X.Label.Text = x
	names := make([]string, len(rows))
	low, high := math.Inf(1), 0.0
	for i, r := range rows {
		at := len(rows) - 1 - i // the first is on top
		names[at] = r.name
		for n, m := range r.marks {
			m.low, m.value, m.high = within(m.low, ends[of], most), within(m.value, ends[of], most), within(m.high, ends[of], most)
			y := float64(at) + 0.16*float64(len(r.marks)-1) - 0.32*float64(n)
			low, high = min(low, m.low), max(high, m.high)
			if m.high > m.low {
				bar, err := plotter.NewLine(plotter.XYs{{X: m.low, Y: y}, {X: m.high, Y: y}})
				if err != nil {
					return "", err
				}
				bar.Color, bar.Width = hue(r.system), 1.4
				p.Add(bar)
			}
			dot, err := plotter.NewScatter(plotter.XYs{{X: m.value, Y: y}})
			if err != nil {
				return "", err
			}
			dot.Color, dot.Radius, dot.Shape = hue(r.system), 3.4, draw.CircleGlyph{}
			if m.hollow {
				dot.Shape = draw.RingGlyph{}
			}
			p.Add(dot)
		}
	}
	switch of {
	case share:
		p.X.Min, p.X.Max = -0.04, 1.02
		p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 0.25}, {Value: 0.5, Label: "50 %"}, {Value: 0.75}, {Value: 1, Label: "100 %"}}
	case plain:
		p.X.Max = max(high*1.08, 1)
		p.X.Min = -0.04 * p.X.Max
		p.X.Tick.Marker = wholes(p.X.Max)
	case logTime:
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(max(high, 10*low))))
		p.X.Tick.Marker = decades(p.X.Min, p.X.Max)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	return svg(p, vg.Length(60+24*len(rows)), label)
}

// decades are ticks at powers of ten.
func decades(first, last float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for e := math.Round(math.Log10(first)); e <= math.Round(math.Log10(last)); e++ {
		v, _ := strconv.ParseFloat(fmt.Sprintf("1e%g", e), 64) // math.Pow10 of -3 is not 0.001
		ticks = append(ticks, plot.Tick{Value: v, Label: plainly(v)})
	}
	if len(ticks) > 5 { // every other one is named
		for i := 1; i < len(ticks); i += 2 {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// The page draws texts in its sans-serif font. Their room is measured by this one.
func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }
