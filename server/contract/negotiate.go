package contract

import (
	"strconv"
	"strings"
)

// acceptRange is one media range of an Accept header.
type acceptRange struct {
	media       string  // "text/plain", "text/*" or "*/*"
	q           float64 // 0..1
	specificity int     // 2 for text/plain, 1 for text/*, 0 for */*
}

// ChooseMedia returns the offer that an Accept header prefers (RFC 9110, section 12.5.1), or "" if
// the header accepts no offer. The highest q wins, then the most specific range, then the first
// offer. An empty header accepts any offer.
//
// Common libraries do not fit: they break ties by the header's order, and treat
// "text/plain;charset=utf-8" as a different type from text/plain.
func ChooseMedia(accept string, offers []string) string {
	if strings.TrimSpace(accept) == "" {
		return offers[0]
	}
	ranges := parseAccept(accept)
	best, bestQ, bestSpecificity := "", 0.0, -1
	for _, offer := range offers {
		q, specificity := quality(offer, ranges)
		if q > bestQ || q == bestQ && q > 0 && specificity > bestSpecificity {
			best, bestQ, bestSpecificity = offer, q, specificity
		}
	}
	return best
}

// quality returns the q and the specificity of the most specific range that matches offer. The q is
// 0 if no range matches.
func quality(offer string, ranges []acceptRange) (q float64, specificity int) {
	specificity = -1
	for _, r := range ranges {
		if r.specificity > specificity && r.matches(offer) {
			q, specificity = r.q, r.specificity
		}
	}
	return q, specificity
}

func (r acceptRange) matches(offer string) bool {
	switch r.specificity {
	case 0:
		return true
	case 1:
		return strings.HasPrefix(offer, strings.TrimSuffix(r.media, "*"))
	}
	return r.media == offer
}

// parseAccept parses the ranges of an Accept header. It ignores malformed ranges, and all
// parameters except q.
func parseAccept(accept string) []acceptRange {
	var ranges []acceptRange
	for part := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(part, ";")
		r := acceptRange{media: strings.ToLower(strings.TrimSpace(media)), q: 1, specificity: 2}
		switch {
		case r.media == "*/*":
			r.specificity = 0
		case strings.HasSuffix(r.media, "/*"):
			r.specificity = 1
		case !strings.Contains(r.media, "/"):
			continue
		}
		for param := range strings.SplitSeq(params, ";") {
			if value, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); ok {
				q, err := strconv.ParseFloat(value, 64)
				if err != nil || !(q >= 0 && q <= 1) {
					q = 0
				}
				r.q = q
			}
		}
		ranges = append(ranges, r)
	}
	return ranges
}
