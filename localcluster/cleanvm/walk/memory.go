package walk

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// minMemoryScript prints the minimum of available memory, in KiB, when its input ends. It starts no process, so that it
// costs next to nothing.
const minMemoryScript = `: cleanvm measures memory; least=; while :; do ` +
	`while read -r name size _; do if [ "$name" = MemAvailable: ] && [ "$size" -lt "${least:-$((size + 1))}" ]; then least=$size; fi; done </proc/meminfo; ` +
	`read -rt 2 _; [ $? -gt 128 ] || break; done; echo "$least"`

// watchMemory measures available memory until the returned function is called. That function returns the minimum in
// MiB.
func (w *Walk) watchMemory(ctx context.Context) func() (int, error) {
	type answer struct {
		text string
		err  error
	}
	in, end := io.Pipe()
	answers := make(chan answer, 1)
	go func() {
		text, err := w.Root.Run(ctx, minMemoryScript, in)
		answers <- answer{text, err}
	}()
	return func() (int, error) {
		if err := end.Close(); err != nil {
			return 0, fmt.Errorf("stop the memory measurement: %w", err)
		}
		a := <-answers
		if a.err != nil {
			return 0, fmt.Errorf("measure the memory: %w", a.err)
		}
		size, err := strconv.Atoi(strings.TrimSpace(a.text))
		if err != nil {
			return 0, fmt.Errorf("measure the memory: %w", err)
		}
		return size >> 10, nil
	}
}
