package changes

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"
)

var midday = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// accessLog makes the log of a web server, with one line per second, starting at noon. Each of the
// functions status, client and took receives a usual value and returns the value for line i.
type accessLog struct {
	status func(i int, usual string) string
	client func(i int, usual string) string
	took   func(i int, usual float64) float64
	// between returns the lines to insert before line i.
	between func(i int, stamp string) []string
}

func (a accessLog) lines(n int, seed uint64) [][]byte {
	r := rand.New(rand.NewPCG(seed, 40))
	var log [][]byte
	for i := range n {
		stamp := midday.Add(time.Duration(i) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
		status, took := "200", .01+float64(.07*r.Float64())
		client := fmt.Sprintf("10.0.%d.%d", r.IntN(3), r.IntN(40))
		if x := r.Float64(); x < .05 {
			status = "404"
		} else if x < .2 {
			status = "304"
		}
		path := [...]string{"items", "users", "cart", "search"}[r.IntN(4)]
		size := 500 + r.IntN(4000)
		if a.status != nil {
			status = a.status(i, status)
		}
		if a.client != nil {
			client = a.client(i, client)
		}
		if a.took != nil {
			took = a.took(i, took)
		}
		if a.between != nil {
			for _, l := range a.between(i, stamp) {
				log = append(log, []byte(l))
			}
		}
		log = append(log, fmt.Appendf(nil, "%s - - [%s] \"GET /v1/%s/%d HTTP/1.1\" %s %d rt=%.3f",
			client, stamp, path, r.IntN(9000), status, size, took))
	}
	return log
}

func ordinary(n int, seed uint64) [][]byte { return accessLog{}.lines(n, seed) }

func take(d *Detector, log [][]byte) (told []Change) {
	for _, l := range log {
		d.Take(bytes.Clone(l), func(c *Change) { told = append(told, *c) })
	}
	return told
}
