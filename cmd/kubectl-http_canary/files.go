package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/files"
)

// maxFile bounds the size of a file.
const maxFile = 16 << 20

var (
	// errNoFile reports folders without manifests.
	errNoFile = errors.New("no file with the extension .yaml, .yml or .json")
	// errFileSize reports a file that is too large.
	errFileSize = errors.New("larger than 16 MiB")
)

// readFiles reads the manifests in files and folders; "-" is the input.
func readFiles(in io.Reader, names []string) ([]files.File, error) {
	var all []files.File
	for _, name := range names {
		if name == "-" {
			content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
			if err == nil && len(content) > maxFile {
				err = fmt.Errorf("input: %w", errFileSize)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, files.File{Name: "input", Content: content})
			continue
		}
		err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			isManifest := path == name || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
			if err != nil || entry.IsDir() || !isManifest {
				return err
			}
			content, err := readFile(path)
			all = append(all, files.File{Name: path, Content: content})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--filename: %w", errNoFile)
	}
	return all, nil
}

// readFile reads a file of a limited size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %w", path, errFileSize)
	}
	return os.ReadFile(filepath.Clean(path))
}
