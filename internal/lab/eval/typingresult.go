package eval

import (
	"cmp"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// TypingResult is the result of Typing, in a form for JSON.
type TypingResult struct {
	Model       string         `json:"model"`
	Data        string         `json:"data"`
	Methods     []string       `json:"methods"`
	Settings    setting.Values `json:"settings,omitempty"`
	Seed        uint64         `json:"seed"`
	Window      int            `json:"window"` // characters to type in each document
	Threshold   float64        `json:"threshold"`
	Threads     int            `json:"threads"`
	Interrupted bool           `json:"interrupted,omitempty"`
	// Scores are the scores of the documents, in order. Domains and Total are means over documents.
	Scores      []TypingScore `json:"documents"`
	Domains     []TypingScore `json:"domains"`
	Total       []TypingScore `json:"total"`
	Calibration []Calibration `json:"calibration"`
	TooShort    []TooShort    `json:"too_short,omitempty"`
}

// TooShort is a document that has fewer characters after its first Read bytes than
// TypingOptions.Window.
type TooShort struct {
	Document string `json:"document"`
	Bytes    int64  `json:"bytes"`
	Read     int64  `json:"read"`
}

// TypingScore is the score of a method in one document, or a mean over documents. Read is the
// number of bytes that the session has read before the typing.
type TypingScore struct {
	Document  string `json:"document,omitempty"`
	Domain    string `json:"domain,omitempty"`
	Documents int    `json:"documents,omitempty"`
	Read      int64  `json:"read"`
	Method    string `json:"method"`
	Word      Typed  `json:"word"`
	WordPlus  Typed  `json:"word_plus"`
	Free      Typed  `json:"free"`
	Inline    Typed  `json:"inline"`
}

// Typed has the counts of keys and offers for a typed part of a document. Shares are in percent.
type Typed struct {
	Characters int     `json:"characters,omitempty"`
	Keys       int     `json:"keys,omitempty"`
	Saved      float64 `json:"saved_percent"` // keys saved, relative to typing without candidates
	Shown      float64 `json:"shown_percent"` // share of the keys at which an offer was shown
	// share of first candidates that were right; 0 if none was shown
	Right float64 `json:"right_percent"`
	P50   float64 `json:"ms_p50"` // median time of an offer, in milliseconds
	// 99th percentile of the time of an offer, in milliseconds
	P99   float64 `json:"ms_p99"`
	Calls float64 `json:"calls"`
	Rows  float64 `json:"rows"`

	shown, right, calls, rows int
}

// derive computes shares, means and percentiles. Percentiles are read by index, so the times of the
// offers must be in ascending order.
func (t *Typed) derive(took []time.Duration) {
	asked := float64(len(took))
	if asked == 0 {
		return
	}
	t.Saved = 100 * (1 - float64(t.Keys)/float64(t.Characters))
	t.Shown = 100 * float64(t.shown) / asked
	t.Right = 100 * float64(t.right) / float64(max(1, t.shown))
	t.Calls, t.Rows = float64(t.calls)/asked, float64(t.rows)/asked
	at := func(share float64) float64 {
		return took[int(share*float64(len(took)-1))].Seconds() * 1000
	}
	t.P50, t.P99 = at(0.5), at(0.99)
}

func (s *TypingScore) modes() [len(typingModes)]*Typed {
	return [...]*Typed{&s.Word, &s.WordPlus, &s.Free, &s.Inline}
}

func (s *TypingScore) set(mode string, t Typed) {
	*s.modes()[slices.Index(typingModes[:], mode)] =
		t
}

// calibrationBuckets is the number of equal intervals that divide the probabilities from 0 to 1.
const calibrationBuckets = 10

// Calibration tells how often a method's candidates were right, by their predicted probability.
type Calibration struct {
	Method  string   `json:"method"`
	Mode    string   `json:"mode"` // word or free; mode free counts only the first candidate
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts candidates with similar probabilities.
type Bucket struct {
	Candidates int     `json:"candidates"`
	Said       float64 `json:"said"` // mean probability of the bucket's candidates
	Right      float64 `json:"right"`
}

func (e *typing) result() TypingResult {
	res := e.res
	domains := map[string][]TypingScore{}
	for _, s := range res.Scores {
		domains[s.Domain] = append(domains[s.Domain], s)
	}
	res.Total = e.means("", res.Scores)
	res.Domains, res.Calibration = []TypingScore{}, []Calibration{}
	for domain, scores := range domains {
		res.Domains = append(res.Domains, e.means(domain, scores)...)
	}
	slices.SortStableFunc(res.Domains, func(a, b TypingScore) int {
		return cmp.Compare(a.Domain,
			b.Domain)
	})
	for _, method := range e.Methods {
		for _, mode := range calibratedModes {
			if all := e.calibration[[2]string{method, mode}]; all != nil {
				c := Calibration{Method: method, Mode: mode}
				for _, b := range all {
					if b.Candidates > 0 {
						n := float64(b.Candidates)
						c.Buckets = append(c.Buckets, Bucket{b.Candidates, b.Said / n, b.Right / n})
					}
				}
				res.Calibration = append(res.Calibration, c)
			}
		}
	}
	return res
}

func (e *typing) means(domain string, scores []TypingScore) []TypingScore {
	all := []TypingScore{}
	for _, read := range e.Read {
		for _, method := range e.Methods {
			mean := TypingScore{Domain: domain, Read: read, Method: method}
			var showing [len(typingModes)]float64
			for _, s := range scores {
				if s.Read != read || s.Method != method {
					continue
				}
				mean.Documents++
				for i, t := range s.modes() {
					if t.Shown > 0 {
						showing[i]++
					}
				}
			}
			for _, s := range scores {
				if s.Read != read || s.Method != method {
					continue
				}
				n := float64(mean.Documents)
				for i, from := range s.modes() {
					to := mean.modes()[i]
					to.Saved += from.Saved / n
					to.Shown += from.Shown / n
					to.Right += from.Right / max(1, showing[i])
					to.P50 += from.P50 / n
					to.P99 += from.P99 / n
					to.Calls += from.Calls / n
					to.Rows += from.Rows / n
				}
			}
			if mean.Documents > 0 {
				all = append(all, mean)
			}
		}
	}
	return all
}
