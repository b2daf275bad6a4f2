package bundle

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// errSecret reports an attempt to write a Secret.
var errSecret = errors.New("a Secret is never written")

// Entry is a file of the archive.
type Entry struct {
	// Name is the path of the file.
	Name string `json:"name"`
	// Size is its size in bytes.
	Size int `json:"size"`
	// Note is why the file is missing or incomplete; empty otherwise.
	Note string `json:"note,omitempty"`
}

// indexFile is the file that lists the files of the archive.
const indexFile = "contents.json"

// archive is a bounded tar.gz archive.
type archive struct {
	compressed *gzip.Writer
	files      *tar.Writer
	now        time.Time
	left       int // the number of bytes that may still be written
	entries    []Entry
}

// newArchive returns an archive whose files have at most limit bytes, before compression. Its index is added to them.
func newArchive(out io.Writer, limit int, now time.Time) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{compressed: compressed, files: tar.NewWriter(compressed), now: now, left: limit, entries: []Entry{}}
}

// add writes a file. A file beyond the limit of the archive is cut. An empty file is only an entry of the index.
func (a *archive) add(name string, content []byte, note string) error {
	if len(content) > a.left {
		note = fmt.Sprintf("cut from %d bytes: the bundle has reached its maximum size", len(content))
		content = content[:a.left]
	}
	a.left -= len(content)
	a.entries = append(a.entries, Entry{Name: name, Size: len(content), Note: note})
	if len(content) == 0 {
		return nil
	}
	return a.write(name, content)
}

// write writes a file regardless of the limit.
func (a *archive) write(name string, content []byte) error {
	err := a.files.WriteHeader(&tar.Header{
		Name: folder + "/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: a.now, Typeflag: tar.TypeReg,
	})
	if err == nil {
		_, err = a.files.Write(content)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// close writes the index, regardless of the limit, and completes the archive.
func (a *archive) close() error {
	index, err := json.MarshalIndent(a.entries, "", "  ")
	if err == nil {
		err = a.write(indexFile, index)
		a.entries = append(a.entries, Entry{Name: indexFile, Size: len(index)})
	}
	return errors.Join(err, a.files.Close(), a.compressed.Close())
}

// folder is the folder of all files in the archive.
const folder = "http-canary-support"
