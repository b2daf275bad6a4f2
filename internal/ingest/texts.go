package ingest

import "sync"

const (
	// maxTexts is how many texts are known at a time, and maxText the length of the longest, in bytes.
	maxTexts, maxText = 4096, 512
)

// texts keeps each text that many objects have once: names of namespaces and ports, and what conditions
// say. When there are too many it begins anew, which costs memory and nothing else. It is safe for
// concurrent use.
type texts struct {
	mu    sync.Mutex
	known map[string]string
}

// share replaces each text by the one copy of it that is known.
func (t *texts) share(all ...*string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range all {
		if *text == "" || len(*text) > maxText {
			continue
		}
		if known, is := t.known[*text]; is {
			*text = known
			continue
		}
		if t.known == nil || len(t.known) >= maxTexts {
			t.known = map[string]string{}
		}
		t.known[*text] = *text
	}
}
