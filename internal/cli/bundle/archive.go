package bundle

import (
	"archive/tar"
	"compress/gzip"
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

// archive is a bounded tar.gz archive.
type archive struct {
	compressed *gzip.Writer
	files      *tar.Writer
	now        time.Time
	left       int // the number of bytes that may still be written
	entries    []Entry
}

// newArchive returns an archive of at most limit bytes, before compression.
func newArchive(out io.Writer, limit int, now time.Time) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{compressed: compressed, files: tar.NewWriter(compressed), now: now, left: limit}
}

// add writes a file. A file beyond the limit of the archive is cut.
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

// close completes the archive.
func (a *archive) close() error { return errors.Join(a.files.Close(), a.compressed.Close()) }

// folder is the folder of all files in the archive.
const folder = "http-canary-support"
