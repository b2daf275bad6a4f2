package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// install copies the running binary to target, or to target/name if target is a folder, and returns the file's path. It
// replaces the file atomically, so that a controller never starts an incomplete binary.
func install(name, target string) (string, error) {
	if status, err := os.Stat(target); (err == nil && status.IsDir()) ||
		strings.HasSuffix(target, string(filepath.Separator)) {
		target = filepath.Join(target, name)
	}
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find the running binary: %w", err)
	}
	source, err := os.Open(filepath.Clean(executable))
	if err != nil {
		return "", err
	}
	defer source.Close()
	return target, replace(target, source)
}

// replace writes content to a temporary file in the same folder and renames it to target.
func replace(target string, content io.Reader) (err error) {
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return fmt.Errorf("%w (does the folder exist, and may this user write to it?)", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), target)
}
