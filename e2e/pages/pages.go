// Package pages reads the commands of documents, so that tests can run them.
package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Pages contains the fenced blocks of documents by their heading.
type Pages map[string][]block

// block is one fenced block.
type block struct{ language, text string }

// ErrNoBlock means that the documents have no such block.
var ErrNoBlock = errors.New("no such block")

// Read reads documents of a folder. Blocks below equal headings are in the order of the documents. A block in a list
// loses the indentation of its first line.
func Read(folder string, names ...string) (Pages, error) {
	out := Pages{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, fmt.Errorf("read the page: %w", err)
		}
		out.add(string(raw))
	}
	return out, nil
}

// add adds the blocks of a document.
func (p Pages) add(document string) {
	heading := ""
	for _, match := range regexp.MustCompile("(?ms)^#+ ([^\n]+)$|^( *)```(\\w*)\n(.*?)^ *```$").
		FindAllStringSubmatch(document, -1) {
		if match[1] != "" {
			heading = match[1]
			continue
		}
		text := regexp.MustCompile("(?m)^"+match[2]).ReplaceAllString(match[4], "")
		p[heading] = append(p[heading], block{match[3], text})
	}
}

// Block returns the n-th block of a language below a heading, counted from 0. The error wraps ErrNoBlock.
func (p Pages) Block(heading, language string, n int) (string, error) {
	left := n
	for _, b := range p[heading] {
		if b.language != language {
			continue
		}
		if left == 0 {
			return b.text, nil
		}
		left--
	}
	return "", fmt.Errorf("%w: number %d of %s below %q", ErrNoBlock, n, language, heading)
}

// Commands returns the number of commands in a script: its lines, except comments and assignments of variables. A
// pipeline is one command.
func Commands(script string) int {
	count := 0
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") &&
			!regexp.MustCompile(`^[A-Z_]+=`).MatchString(line) {
			count++
		}
	}
	return count
}
