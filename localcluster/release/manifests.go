package release

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// ErrManifests is returned for manifests without an image of this project.
var ErrManifests = errors.New("no manifest contains an image of this project")

// WriteManifests writes the manifests of a folder to config.tar.gz, and sets this project's images to a version in a
// registry, with a folder if the registry has one. The tree itself contains the names of the embedded cluster's images.
func WriteManifests(folder fs.FS, registry, version string, out io.Writer) error {
	local := regexp.MustCompile(`ghcr\.io/kedify/([a-z-]+):dev\b`)
	compressed := gzip.NewWriter(out)
	w := tar.NewWriter(compressed)
	replaced := 0
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		text := string(content)
		replaced += len(local.FindAllString(text, -1))
		text = local.ReplaceAllString(text, strings.ReplaceAll(registry, "$", "$$")+"/${1}:"+version)
		// The time is the epoch of the format: equal manifests give equal bytes.
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join("config", name), Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = io.WriteString(w, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("pack the manifests: %w", err)
	}
	if replaced == 0 {
		return ErrManifests
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("pack the manifests: %w", err)
	}
	return nil
}
