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

// ErrChart is returned for a tree without a chart that has a version.
var ErrChart = errors.New("no chart with a version")

// chartFolder is the folder of the chart in the repository. Its last part is the name of the chart.
const chartFolder = "charts/kedify-http"

// ChartFile returns the file name of the chart of a version, as `helm package` calls it.
func ChartFile(version string) string { return path.Base(chartFolder) + "-" + version + ".tgz" }

// WriteChart writes the chart of a repository as the archive that `helm package` writes, with the license of the
// project. It sets the versions of the chart and of its images. Unlike that of `helm package`, the archive contains no
// times of files: equal charts give equal bytes.
func WriteChart(repository fs.FS, version string, out io.Writer) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	err := chartFiles(repository, version, func(name string, content []byte) error {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(path.Base(chartFolder), name), Mode: 0o644, Size: int64(len(content)),
			Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("pack the chart: %w", err)
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("pack the chart: %w", err)
	}
	return nil
}

// chartFiles passes the files of the chart to write, Chart.yaml first, as Helm does, and then in order of their names.
// Hidden files are not part of a chart.
func chartFiles(repository fs.FS, version string, write func(name string, content []byte) error) error {
	const about = "Chart.yaml"
	description, err := fs.ReadFile(repository, path.Join(chartFolder, about))
	if err != nil {
		return err
	}
	versions := regexp.MustCompile(`(?m)^(version|appVersion): .+$`)
	if found := len(versions.FindAll(description, -1)); found != 2 {
		return fmt.Errorf("%w: %s has %d lines version and appVersion, want 2", ErrChart, about, found)
	}
	description = versions.ReplaceAll(description, []byte("${1}: "+strings.ReplaceAll(version, "$", "$$")))
	if err := write(about, description); err != nil {
		return err
	}
	license, err := fs.ReadFile(repository, "LICENSE")
	if err != nil {
		return err
	}
	if err := write("LICENSE", license); err != nil {
		return err
	}
	chart, err := fs.Sub(repository, chartFolder)
	if err != nil {
		return err
	}
	return fs.WalkDir(chart, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == about || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		content, err := fs.ReadFile(chart, name)
		if err != nil {
			return err
		}
		return write(name, content)
	})
}
