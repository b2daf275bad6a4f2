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

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// ErrManifests is returned for manifests without an image of this project.
var ErrManifests = errors.New("no manifest contains an image of this project")

// WriteManifests writes the manifests of a folder to config.tar.gz, and sets this project's images to a version in a
// registry, with a folder if the registry has one. The tree itself contains the names of the embedded cluster's images.
func WriteManifests(folder fs.FS, registry, version string, out io.Writer) error {
	compressed := gzip.NewWriter(out)
	w := tar.NewWriter(compressed)
	err := manifests(folder, registry, version, func(name, text string) error {
		// The time is the epoch of the format: equal manifests give equal bytes.
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join("config", name), Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("pack the manifests: %w", err)
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("pack the manifests: %w", err)
	}
	return nil
}

// manifests passes each manifest of a folder to write, in order of its name, with this project's images of a version in
// a registry. In kustomizations it also sets the names and versions of images, and the version in labels.
func manifests(folder fs.FS, registry, version string, write func(name, text string) error) error {
	own := regexp.QuoteMeta(product.Registry + "/" + product.Organization + "/")
	local := regexp.MustCompile(own + `(` + product.PluginImage + `(?:/[a-z-]+)?):dev\b`)
	names := regexp.MustCompile(`(?m)^( *- name: )` + own)
	versions := regexp.MustCompile(`(?m)^( *(?:- )?(?:newTag|app\.kubernetes\.io/version): ).+$`)
	literal := func(text string) string { return strings.ReplaceAll(text, "$", "$$") }
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
		text = local.ReplaceAllString(text, literal(registry)+"/${1}:"+literal(version))
		if path.Base(name) == "kustomization.yaml" {
			text = versions.ReplaceAllString(text, "${1}"+literal(version))
			text = names.ReplaceAllString(text, "${1}"+literal(registry)+"/")
		}
		return write(name, text)
	})
	if err == nil && replaced == 0 {
		err = ErrManifests
	}
	return err
}
