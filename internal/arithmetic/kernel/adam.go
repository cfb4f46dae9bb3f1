package kernel

import "math"

// Adam contains the constants for one step of the optimizer Adam (Kingma and Ba):
//
//	m <- Beta1 m + (1-Beta1) d
//	v <- Beta2 v + (1-Beta2) d²
//	w <- w - Rate m / (Root sqrt(v) + Eps)
//
// where d is the gradient times Scale. Rate and Root include the bias corrections of the
// moments m and v.
type Adam struct{ Scale, Beta1, Beta2, Rate, Root, Eps float32 }

func (a *Adam) portable(w, m, v, g []float32) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	rest1, rest2 := 1-a.Beta1, 1-a.Beta2
	for j := range w {
		d := float32(a.Scale * g[j])
		mj := float32(a.Beta1*m[j]) + float32(rest1*d)
		vj := float32(a.Beta2*v[j]) + float32(rest2*float32(d*d))
		m[j], v[j] = mj, vj
		root := float32(a.Root * float32(math.Sqrt(float64(vj))))
		w[j] -= float32(float32(a.Rate*mj) / (root + a.Eps))
	}
}
