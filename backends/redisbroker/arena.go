package redisbroker

// arena collects the texts of one call's arguments, so that a batch costs a
// few allocations and not some for each job. A text is a piece of the buffer
// until done makes strings of all at once; a pointer to one of those is an
// argument without being boxed.
type arena struct {
	buf   []byte
	texts []string
	ends  []int // of the pieces of buf, or -1 for a text that stands as it is
}

func newArena(texts, bytes int) *arena {
	return &arena{buf: make([]byte, 0, bytes), texts: make([]string, 0, texts), ends: make([]int, 0, texts)}
}

// add takes a string as it is.
func (a *arena) add(s string) {
	a.texts = append(a.texts, s)
	a.ends = append(a.ends, -1)
}

// cut ends a piece that was appended to buf.
func (a *arena) cut() {
	a.texts = append(a.texts, "")
	a.ends = append(a.ends, len(a.buf))
}

// appendTo adds the texts to args, in the order in which they came.
func (a *arena) appendTo(args []any) []any {
	all, from := string(a.buf), 0
	for i, end := range a.ends {
		if end >= 0 {
			a.texts[i] = all[from:end]
			from = end
		}
		args = append(args, &a.texts[i])
	}
	return args
}
