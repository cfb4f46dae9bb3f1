package suggest

// AutoBytes is the number of bytes at the end of a text that UnitOf reads.
const AutoBytes = 2048

const (
	autoContext = 5    // number of equal bytes by which an earlier place is recognized
	autoLead    = 0.03 // additional keys that free ends must save, as a share of the text's bytes
)

// UnitOf chooses the unit of the candidates that may follow a text: WordPlus, or Free if candidates
// with free ends would have saved more keys in the recent text. It replays the end of the text with
// one candidate: the text that earlier followed the same five bytes. This needs no network.
func UnitOf(text []byte) Unit {
	text = text[max(0, len(text)-AutoBytes):]
	followed := make([]int, len(text)) // last offset after the same bytes; 0 means none
	last := make(map[[autoContext]byte]int, len(text))
	for i := autoContext; i < len(text); i++ {
		context := [autoContext]byte(text[i-autoContext:])
		followed[i], last[context] = last[context], i
	}
	words := keys(text, followed, wordOf)
	free := keys(text, followed, func(run []byte) int { return len(run) })
	if float64(words-free) > autoLead*float64(len(text)) {
		return Free
	}
	return WordPlus
}

// keys returns the number of keys that a writer presses to type a text with suggestions. cut
// returns how many of a candidate's right bytes can be accepted.
func keys(text []byte, followed []int, cut func(right []byte) int) (n int) {
	for i := 0; i < len(text); n++ {
		right := 0
		if from := followed[i]; from > 0 {
			for i+right < len(text) && right < BytesMax && text[from+right] == text[i+right] {
				right++
			}
		}
		i += max(1, cut(text[i:i+right]))
	}
	return n
}

// wordOf returns the length of the word at the beginning of a text, including the separators before
// the word and one separator after it. It returns 0 if the word does not end.
func wordOf(text []byte) int {
	begins := 0
	for begins < len(text) && begins <= int(WordPlus.before()) && separator(text[begins]) {
		begins++
	}
	for end := begins; end < len(text); end++ {
		if separator(text[end]) {
			if end == begins {
				return 0
			}
			return end + 1
		}
	}
	return 0
}
