package main

// method says how strange each line of a log is, from the lines up to it: the larger the stranger.
type method struct {
	name string
	rate func(log []scored) []float64
}

var methods = []method{
	{"strangeness, adaptive model", each(func(l scored) float64 { return 1 / l.adaptive.P })},
	{"strangeness, static model", each(func(l scored) float64 { return 1 / l.static.P })},
	{"bits, adaptive model", each(func(l scored) float64 { return l.adaptive.Bits })},
	{
		"bits a byte, adaptive model",
		each(func(l scored) float64 { return l.adaptive.BitsPerByte() }),
	},
	{"bits a byte, static model", each(func(l scored) float64 { return l.static.BitsPerByte() })},
	{"rare templates, counted", func(log []scored) []float64 {
		t := templates{groups: map[group][]*template{}}
		return each(func(l scored) float64 { return t.surprise(l.text) })(log)
	}},
	{"rare words, counted", func(log []scored) []float64 {
		v := vocabulary{count: map[string]float64{}}
		return each(func(l scored) float64 { return v.surprise(l.text) })(log)
	}},
}

func each(f func(scored) float64) func([]scored) []float64 {
	return func(log []scored) []float64 {
		ratings := make([]float64, len(log))
		for i, l := range log {
			ratings[i] = f(l)
		}
		return ratings
	}
}
