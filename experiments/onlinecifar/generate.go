package main

import (
	"math"
	"math/rand/v2"
)

const generatedSide = 8

// The classes of the generated images are all combinations of 5 shapes, 5 textures and 4 hues.
// Training, development and test share shapes, textures and hues, but no combination.
const (
	shapeCount   = 5
	textureCount = 5
	hueCount     = 4
)

// shapes contains functions that report whether a point is inside a shape: a disc, a cross, a
// horizontal bar, a pillar, or a frame. x and y are distances from the center, in units of the
// shape's size.
var shapes = [shapeCount]func(x, y float64) bool{
	func(x, y float64) bool { return math.Hypot(x, y) < 1 },
	func(x, y float64) bool { return math.Abs(x) < .45 || math.Abs(y) < .45 },
	func(x, y float64) bool { return math.Abs(y) < .55 },
	func(x, y float64) bool { return math.Abs(x) < .55 },
	func(x, y float64) bool { return math.Max(math.Abs(x), math.Abs(y)) > .5 },
}

// textures contains functions that return the brightness of a pixel. The textures are uniform,
// vertical stripes, horizontal stripes, checkered, and diagonal stripes.
var textures = [textureCount]func(x, y int) float64{
	func(_, _ int) float64 { return .8 },
	func(x, _ int) float64 { return stripes(x) },
	func(_, y int) float64 { return stripes(y) },
	func(x, y int) float64 { return stripes(x + y) },
	func(x, y int) float64 { return stripes((x + y) / 2) },
}

func stripes(k int) float64 { return []float64{1, .35}[k&1] }

// generate returns 100 classes of images: colored textured shapes on 8x8 pixels. Images of a class
// differ in position, size, hue, brightness, background color and noise.
func generate(seed uint64) *set {
	s := &set{side: generatedSide}
	r := rand.New(rand.NewPCG(seed, 8))
	for class := range classCount {
		for range streamCount {
			s.stream[class] = append(s.stream[class], drawImage(class, r))
		}
		for range heldCount {
			s.held[class] = append(s.held[class], drawImage(class, r))
		}
	}
	return s
}

func drawImage(class int, r *rand.Rand) []byte {
	const side, noise, hueSpread = generatedSide, 0.18, 0.12
	inside, texture := shapes[class%shapeCount], textures[class/shapeCount%textureCount]
	hue := float64(class/(shapeCount*textureCount))/hueCount + hueSpread*r.NormFloat64()
	ink, paper := ofHue(hue), ofHue(r.Float64())
	cx, cy := side/2-.5+2*(r.Float64()-.5), side/2-.5+2*(r.Float64()-.5)
	size, light := 2.6+.9*r.Float64(), .7+.3*r.Float64()
	px, py := r.IntN(2), r.IntN(2) // random phase of the texture
	image := make([]byte, 3*side*side)
	for p := range side * side {
		x, y := p%side, p/side
		dx, dy := (float64(x)-cx)/size, (float64(y)-cy)/size
		within := math.Max(math.Abs(dx), math.Abs(dy)) < 1 && inside(dx, dy)
		for c := range 3 {
			v := .3 * paper[c]
			if within {
				v = light * texture(x+px, y+py) * ink[c]
			}
			v += noise * r.NormFloat64()
			image[c*side*side+p] = byte(255 * min(max(v, 0), 1))
		}
	}
	return image
}

// ofHue returns the red, green and blue of a hue from 0 to 1, mixed with some white.
func ofHue(hue float64) (rgb [3]float64) {
	for c := range rgb {
		rgb[c] = .55 + .45*math.Cos(2*math.Pi*(hue-float64(c)/3))
	}
	return rgb
}
