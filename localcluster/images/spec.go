// Package images builds container images from files on disk and serves them under their official names, so that
// official manifests apply unchanged without any download.
package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Spec describes one image: a single layer of files and how to run it.
type Spec struct {
	// Names are the image's repositories with tags, without the registry: the cluster's registry serves the names of
	// every registry.
	Names []string `json:"names"`
	// Files are the files of the image.
	Files []File `json:"files"`
	// Folders are additional folders that must exist.
	Folders []Folder `json:"folders,omitempty"`
	// Entrypoint is the program with its first arguments.
	Entrypoint []string `json:"entrypoint"`
	// Env are the environment variables, as NAME=value.
	Env []string `json:"env,omitempty"`
	// User is the numeric user ID of the program.
	User string `json:"user,omitempty"`
	// WorkingDir is the working directory of the program.
	WorkingDir string `json:"workingDir,omitempty"`
	// Labels are the image's labels.
	Labels map[string]string `json:"labels,omitempty"`
}

// File is one file of an image.
type File struct {
	// Path is the absolute path in the image.
	Path string `json:"path"`
	// Source is the path on disk, or a pattern (path/filepath.Match) that exactly one file must match.
	Source string `json:"source,omitempty"`
	// LinkTo makes the file a hard link to an earlier file, instead of Source.
	LinkTo string `json:"linkTo,omitempty"`
	// Mode are its permission bits. 0 means those of a program, 0755.
	Mode int64 `json:"mode,omitempty"`
}

// Folder is one folder of an image.
type Folder struct {
	// Path is the absolute path in the image.
	Path string `json:"path"`
	// Owner is the numeric ID of its user and group.
	Owner int `json:"owner"`
	// Mode are its permission bits.
	Mode int64 `json:"mode"`
}

// Build builds the image for a cluster on this machine, with an uncompressed layer. Equal files give an equal digest:
// nothing in it depends on the time or on the user.
func Build(spec Spec, architecture string) (v1.Image, error) {
	return assemble(spec, architecture, func(content []byte) (v1.Layer, error) {
		return static.NewLayer(content, types.OCIUncompressedLayer), nil
	})
}

// BuildCompressed builds the image for a remote registry. Equal files and one version of Go give an equal digest.
func BuildCompressed(spec Spec, architecture string) (v1.Image, error) {
	return assemble(spec, architecture, func(content []byte) (v1.Layer, error) {
		return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	})
}

// assemble builds the image with its layer in the given encoding.
func assemble(spec Spec, architecture string, encode func(content []byte) (v1.Layer, error)) (v1.Image, error) {
	content, err := layerOf(spec)
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", strings.Join(spec.Names, ", "), err)
	}
	layer, err := encode(content)
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", strings.Join(spec.Names, ", "), err)
	}
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", strings.Join(spec.Names, ", "), err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image %s: %w", strings.Join(spec.Names, ", "), err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config.Entrypoint = spec.Entrypoint
	config.Config.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, spec.Env...)
	config.Config.User = spec.User
	config.Config.WorkingDir = spec.WorkingDir
	config.Config.Labels = spec.Labels
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("configure image %s: %w", strings.Join(spec.Names, ", "), err)
	}
	return mutate.ConfigMediaType(image, types.OCIConfigJSON), nil
}

func layerOf(spec Spec) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, folder := range foldersOf(spec) {
		header := &tar.Header{
			Typeflag: tar.TypeDir, Name: strings.TrimPrefix(folder.Path, "/") + "/",
			Mode: folder.Mode, Uid: folder.Owner, Gid: folder.Owner, Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add folder %s: %w", folder.Path, err)
		}
	}
	for _, file := range spec.Files {
		add := addFile
		if file.LinkTo != "" {
			add = addLink
		}
		if err := add(w, file); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish the layer: %w", err)
	}
	return out.Bytes(), nil
}

func addFile(w *tar.Writer, file File) error {
	matches, err := filepath.Glob(file.Source)
	if err != nil || len(matches) == 0 {
		return fmt.Errorf("add file %s: %s does not exist: %w", file.Path, file.Source, errors.Join(fs.ErrNotExist, err))
	}
	source, err := os.Open(matches[0])
	if err != nil {
		return fmt.Errorf("add file %s: %w", file.Path, err)
	}
	defer source.Close()
	stat, err := source.Stat()
	if err != nil {
		return fmt.Errorf("add file %s: %w", file.Path, err)
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(file.Path, "/"),
		Mode: cmp.Or(file.Mode, 0o755), Size: stat.Size(), Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("add file %s: %w", file.Path, err)
	}
	if _, err := io.Copy(w, source); err != nil {
		return fmt.Errorf("add file %s: %w", file.Path, err)
	}
	return nil
}

// addLink adds a hard link to a file.
func addLink(w *tar.Writer, file File) error {
	header := &tar.Header{
		Typeflag: tar.TypeLink, Name: strings.TrimPrefix(file.Path, "/"), Linkname: strings.TrimPrefix(file.LinkTo, "/"),
		Mode: 0o755, Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("add file %s: %w", file.Path, err)
	}
	return nil
}

// foldersOf returns all folders of an image, parents first.
func foldersOf(spec Spec) []Folder {
	known := map[string]Folder{}
	for _, folder := range spec.Folders {
		known[path.Clean(folder.Path)] = folder
	}
	add := func(name string) {
		for ; name != "/" && name != "."; name = path.Dir(name) {
			if _, ok := known[name]; !ok {
				known[name] = Folder{Path: name, Mode: 0o755}
			}
		}
	}
	for _, folder := range spec.Folders {
		add(path.Dir(path.Clean(folder.Path)))
	}
	for _, file := range spec.Files {
		add(path.Dir(path.Clean(file.Path)))
	}
	out := make([]Folder, 0, len(known))
	for _, folder := range known {
		out = append(out, folder)
	}
	slices.SortFunc(out, func(a, b Folder) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// With returns the images that contain one of the files on disk.
func With(specs []Spec, sources []string) []Spec {
	var out []Spec
	for _, spec := range specs {
		if slices.ContainsFunc(spec.Files, func(f File) bool { return slices.Contains(sources, f.Source) }) {
			out = append(out, spec)
		}
	}
	return out
}
