package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// exported is what another cluster needs for the same installation.
type exported struct {
	// Images is a file with the images of this project's own programs, in the format of `docker save`. All others can
	// be pulled.
	Images string `json:"images"`
	// Steps are the arguments of kubectl, in order.
	Steps []install.Step `json:"steps"`
}

func exportCommand(l *location) *cobra.Command {
	return &cobra.Command{
		Use:   "export FOLDER",
		Short: "Write this project's images to a file, and print the steps of an installation into another cluster as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			folder, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("the export folder: %w", err)
			}
			return export(c.Context(), l, folder, c.OutOrStdout())
		},
	}
}

// export builds this project's programs and the files of their installation.
func export(ctx context.Context, l *location, folder string, out io.Writer) error {
	rollouts, err := componentNamed(l, "argo-rollouts")
	if err != nil {
		return err
	}
	components, err := ensureComponents(ctx, l, []build.Component{rollouts})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the export folder: %w", err)
	}
	e := exported{Images: filepath.Join(folder, "images.tar")}
	// The manifests contain this tag.
	built, err := buildImages(ctx, l.repo, folder, imagesRequest{
		registry: registry, tag: "dev", architectures: []string{runtime.GOARCH},
		images: []string{product.PluginImage, product.InterceptorImage},
	})
	if err != nil {
		return err
	}
	if err := images.SaveArchive(built, runtime.GOARCH, e.Images); err != nil {
		return err
	}
	e.Steps = install.Steps(install.Canaries(install.Sources{
		Repo: l.repo, RolloutsManifest: filepath.Join(components["argo-rollouts"], "share", "install.yaml"),
	}))
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(e)
}
