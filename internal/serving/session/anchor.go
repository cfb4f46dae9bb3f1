package session

import "hash/fnv"

// An editor sends the text before the cursor; of a long one it cuts off the front, which moves on
// with every key. Text that begins elsewhere is another text, of which nothing is known. So before
// a suffix a long prompt is read from a line on that stays the same while the front moves over
// others.
const (
	anchorBytes = 4096 // a prompt that is not longer is read from its beginning
	anchorLine  = 64   // bytes by which a line is known
)

// anchored is a prompt without some of its first quarter: it begins with the line there whose hash
// is least (winnowing; Schleimer, Wilkerson and Aiken, 2003). That depends on the prompt alone.
func anchored(prompt []byte) []byte {
	if len(prompt) <= anchorBytes {
		return prompt
	}
	at, least := 0, ^uint64(0)
	for i := 1; i <= len(prompt)/4; i++ {
		if prompt[i-1] != '\n' {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write(prompt[i : i+anchorLine])
		if sum := h.Sum64(); sum < least {
			at, least = i, sum
		}
	}
	return prompt[at:]
}
