// Command release writes the documents of a release. GoReleaser runs it for the manifests, the chart, the licenses and
// the bills of materials (.goreleaser.yaml), `make snapshot` and `make release` for the notes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
	"github.com/kedify/argo-rollouts-plugin/localcluster/release"
	"github.com/kedify/argo-rollouts-plugin/localcluster/versions"
)

// version is set by the linker.
var version = "dev"

func main() {
	root := &cobra.Command{
		Use: "release", Short: "Documents of a release", Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(checkCommand(), sbomCommand(), manifestsCommand(), chartCommand(), licensesCommand(), notesCommand(),
		versionsCommand())
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

func checkCommand() *cobra.Command {
	var version, folder string
	command := &cobra.Command{
		Use:   "check",
		Short: "Check that the chart and the kustomization have the version of a release, and the changelog its changes",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return release.CheckVersion(os.DirFS(folder), version) },
	}
	command.Flags().StringVar(&version, "of", "", "`VERSION` of the release, without a v")
	command.Flags().StringVar(&folder, "folder", ".", "root of the repository")
	return command
}

func sbomCommand() *cobra.Command {
	var binaryVersion string
	command := &cobra.Command{
		Use:   "sbom BINARY FILE",
		Short: "Write the software bill of materials of a binary",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			licenses, err := release.LocalLicenses(c.Context(), ".")
			if err != nil {
				return err
			}
			return write(args[1], func(out io.Writer) error { return release.WriteBill(args[0], binaryVersion, licenses, out) })
		},
	}
	command.Flags().StringVar(&binaryVersion, "of", "", "`VERSION` of the binary, without a v")
	return command
}

func licensesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "licenses FILE PACKAGE...",
		Short: "Write the licenses and notices of the modules that packages are built from, on all platforms of a release",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			modules, err := release.LinkedModules(c.Context(), ".", args[1:]...)
			if err != nil {
				return err
			}
			licenses, err := release.LocalLicenses(c.Context(), ".")
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(args[0]), 0o755); err != nil {
				return fmt.Errorf("create the folder of the licenses: %w", err)
			}
			return write(args[0], func(out io.Writer) error { return release.WriteThirdParty(modules, licenses, out) })
		},
	}
}

func chartCommand() *cobra.Command {
	var version, folder string
	command := &cobra.Command{
		Use:   "chart FOLDER",
		Short: "Write the Helm chart of a release into a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the folder of the chart: %w", err)
			}
			return write(filepath.Join(args[0], release.ChartFile(version)), func(out io.Writer) error {
				return release.WriteChart(os.DirFS(folder), version, out)
			})
		},
	}
	command.Flags().StringVar(&version, "of", "", "`VERSION` of the chart and of its images, without a v")
	command.Flags().StringVar(&folder, "folder", ".", "root of the repository")
	return command
}

func manifestsCommand() *cobra.Command {
	var imageVersion, registry, folder string
	command := &cobra.Command{
		Use:   "manifests FOLDER",
		Short: "Write config.tar.gz and install.yaml with the images of a release into a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the folder of the manifests: %w", err)
			}
			err := write(filepath.Join(args[0], "config.tar.gz"), func(out io.Writer) error {
				return release.WriteManifests(os.DirFS(folder), registry, imageVersion, out)
			})
			if err != nil {
				return err
			}
			return write(filepath.Join(args[0], "install.yaml"), func(out io.Writer) error {
				return release.WriteInstall(os.DirFS(folder), registry, imageVersion, out)
			})
		},
	}
	command.Flags().StringVar(&imageVersion, "of", "", "`VERSION` of the images")
	command.Flags().StringVar(&registry, "registry",
		product.Registry+"/"+product.Organization, "`REGISTRY/FOLDER` of the images")
	command.Flags().StringVar(&folder, "folder", "config", "folder with the manifests")
	return command
}

// write writes a file completely or returns an error.
func write(file string, content func(out io.Writer) error) error {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	return errors.Join(content(out), out.Close())
}

func versionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "versions PAGE",
		Short: "Compare the pinned versions in the table of a page with the newest ones",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			page, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the table of versions: %w", err)
			}
			pins, err := versions.Parse(string(page))
			if err != nil {
				return err
			}
			return versions.Report(c.Context(), pins, newestVersion, c.OutOrStdout())
		},
	}
}

// newestVersion asks Go's module proxy for the newest release of a module in a line.
func newestVersion(ctx context.Context, module, line string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module+"@"+line)
	// Outside of a module, nothing restricts the version.
	command.Dir, command.Env, command.Stderr = os.TempDir(), append(os.Environ(), "GOFLAGS="), os.Stderr
	version, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("newest version of %s in line %s: %w", module, line, err)
	}
	return strings.TrimSpace(string(version)), nil
}

func notesCommand() *cobra.Command {
	var base, changelog string
	command := &cobra.Command{
		Use:   "notes FOLDER",
		Short: "Write release-notes.md into GoReleaser's output folder",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return writeNotes(args[0], base, changelog) },
	}
	command.Flags().StringVar(&base, "base", "", "base `URL` of the binaries (default: the project's releases)")
	command.Flags().StringVar(&changelog, "changelog", "CHANGELOG.md", "the changelog")
	return command
}

// writeNotes writes the release notes into a folder. An empty base means the project's own releases.
func writeNotes(folder, base, changelog string) error {
	changes, err := os.ReadFile(changelog)
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(folder, "checksums.txt"))
	if err != nil {
		return fmt.Errorf("read the checksums: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "metadata.json"))
	if err != nil {
		return fmt.Errorf("read GoReleaser's description of the release: %w", err)
	}
	var about struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &about); err != nil {
		return fmt.Errorf("read GoReleaser's description of the release: %w", err)
	}
	if base == "" {
		base = "https://github.com/kedify/argo-rollouts-plugin/releases/download/v" + about.Version
	}
	notes, err := release.Notes(about.Version, base, string(changes), string(sums))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "release-notes.md"), []byte(notes), 0o644); err != nil {
		return fmt.Errorf("write the release notes: %w", err)
	}
	return nil
}
