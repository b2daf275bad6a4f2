package sink

import "sync"

const (
	// maxMemory limits the samples of all streams in bytes, and maxAccountMemory those of the streams of one fleet, or of
	// the external proxies of one namespace. Fifty proxies with 10,000 clusters in use take 290 MB.
	maxMemory, maxAccountMemory = 480 << 20, 320 << 20
	// memoryStep is how many bytes a stream gets at a time.
	memoryStep = 256 << 10
)

// memory counts the samples of all streams in bytes. The zero value counts none. It is safe for concurrent use.
type memory struct {
	mu       sync.Mutex
	used     int
	accounts map[string]int // used by account
}

// share is the part of one stream. It is not safe for concurrent use.
type share struct {
	memory  *memory
	account string
	used    int
}

// grow makes the part at least as large as bytes, and returns false if a limit does not allow it.
func (s *share) grow(bytes int) bool {
	if bytes <= s.used {
		return true
	}
	more := (bytes - s.used + memoryStep - 1) / memoryStep * memoryStep
	if !s.memory.add(s.account, more) {
		return false
	}
	s.used += more
	return true
}

// free gives the part back.
func (s *share) free() {
	s.memory.add(s.account, -s.used)
	s.used = 0
}

// add adds bytes to an account, and returns false if a limit does not allow it.
func (m *memory) add(account string, bytes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > 0 && (m.used+bytes > maxMemory || m.accounts[account]+bytes > maxAccountMemory) {
		return false
	}
	if m.accounts == nil {
		m.accounts = map[string]int{}
	}
	m.used += bytes
	if m.accounts[account] += bytes; m.accounts[account] == 0 {
		delete(m.accounts, account)
	}
	return true
}
