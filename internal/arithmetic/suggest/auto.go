package suggest

// AutoBytes is the number of bytes at the end of a text that UnitOf reads.
const AutoBytes = 2048

const (
	autoContext = 5    // length in bytes of the context that predicts the next text
	autoLead    = 0.03 // minimum additional saving of the unit Free, in keys per byte of text
)

// UnitOf chooses the unit of candidates: Free if it would have saved more keys in the recent text,
// else WordPlus. For the comparison, UnitOf replays the end of the text without a network. At each
// place, the candidate is the text that followed the last occurrence of the same five bytes.
func UnitOf(text []byte) Unit {
	text = text[max(0, len(text)-AutoBytes):]
	// last earlier offset with the same context; 0 means none
	followed := make([]int, len(text))
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

// keys returns the number of keys pressed to type a text with suggestions. For a candidate's
// correct bytes, cut returns how many of them one key accepts.
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

// wordOf returns the length of the word at the beginning of a text. The length includes the
// separators before the word and one separator after the word. If the text ends within the word,
// wordOf returns 0.
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
