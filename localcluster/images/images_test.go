package images

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func sample(t *testing.T) Spec {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Names:      []string{"team/app:one", "team/app:two"},
		Files:      []File{{Path: "/usr/bin/app", Source: program}},
		Folders:    []Folder{{Path: "/home/app", Owner: 999, Mode: 0o755}},
		Entrypoint: []string{"/usr/bin/app"}, Env: []string{"COLOR=blue"}, User: "999", WorkingDir: "/home/app",
	}
}

func TestEqualFilesGiveEqualImages(t *testing.T) {
	spec := sample(t)
	digest := func() v1.Hash {
		image, err := Build(spec, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		hash, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	first := digest()
	if again := digest(); again != first {
		t.Errorf("two builds of the same files differ: %v, %v", first, again)
	}
	spec.Env = []string{"COLOR=yellow"}
	if other := digest(); other == first {
		t.Error("another environment gives the same image")
	}
}

func TestServedImagesCanBePulledByEachName(t *testing.T) {
	handler, err := Handler(filepath.Join(t.TempDir(), "registry"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if err := Publish(t.Context(), []Spec{sample(t)}, host, "amd64"); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"team/app:one", "team/app:two"} {
		reference, err := name.ParseReference(host+"/"+tag, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(reference)
		if err != nil {
			t.Fatalf("pull %s: %v", tag, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := v1.Config{
			Entrypoint: []string{"/usr/bin/app"}, User: "999", WorkingDir: "/home/app",
			Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "COLOR=blue"},
		}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Errorf("configuration of %s (-want +got):\n%s", tag, diff)
		}
		if size, err := io.Copy(io.Discard, mutate.Extract(image)); err != nil || size == 0 {
			t.Errorf("%s: %d bytes of files, %v", tag, size, err)
		}
	}
}

func TestErrorNamesMissingFile(t *testing.T) {
	spec := Spec{
		Names: []string{"team/app:one"}, Files: []File{{Path: "/app", Source: filepath.Join(t.TempDir(), "gone")}},
	}
	_, err := Build(spec, "amd64")
	if err == nil || !strings.Contains(err.Error(), "team/app:one") || !strings.Contains(err.Error(), "/app") {
		t.Errorf("error %v", err)
	}
}

// The owner of a cluster publishes rebuilt images over a socket, even in a deeply nested folder.
func TestImagesCanBePublishedOverASocket(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	handler, err := Handler(filepath.Join(folder, "registry"))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "registry.sock")
	listener, err := Listen(t.Context(), socket, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener = listener
	server.Start()
	defer server.Close()
	if err := PublishOver(t.Context(), socket, []Spec{sample(t)}, "amd64"); err != nil {
		t.Fatal(err)
	}
	index, err := BuildIndex("registry.example.com/team/app:three", map[string]Spec{"amd64": sample(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := PushOver(t.Context(), socket, index); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"two", "three"} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodHead,
			"/v2/team/app/manifests/"+tag, http.NoBody))
		if recorder.Code != http.StatusOK {
			t.Errorf("the registry answers %d for an image that was published as %s", recorder.Code, tag)
		}
	}
}

// A library's folder depends on the architecture.
func TestAFileCanBeNamedByAPattern(t *testing.T) {
	folder := t.TempDir()
	library := filepath.Join(folder, "usr", "lib", "x86_64-linux-gnu", "libc.so.6")
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, []byte("library"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := sample(t)
	spec.Files = append(spec.Files,
		File{Path: "/lib/libc.so.6", Source: filepath.Join(folder, "usr", "lib", "*-linux-gnu", "libc.so.6")})
	if _, err := Build(spec, "amd64"); err != nil {
		t.Error(err)
	}
	spec.Files = append(spec.Files,
		File{Path: "/lib/ld.so", Source: filepath.Join(folder, "lib", "*-linux-gnu", "ld-linux-*")})
	if _, err := Build(spec, "amd64"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/lib/ld.so") {
		t.Errorf("a pattern that no file matches: %v", err)
	}
}

// Images that are saved for another cluster have the names of the manifests and the bytes of pushed images.
func TestOneDescriptionGivesOneImageEverywhere(t *testing.T) {
	handler, err := Handler(filepath.Join(t.TempDir(), "registry"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	spec := sample(t)
	spec.Labels = map[string]string{"org.opencontainers.image.title": "app"}
	full := strings.TrimPrefix(server.URL, "http://") + "/team/app:one"
	index, err := BuildIndex(full, map[string]Spec{"amd64": spec, "arm64": spec})
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Images["arm64"].Digest()
	if err != nil {
		t.Fatal(err)
	}

	if err := Push(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(full)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); got != want || err != nil {
		t.Errorf("the registry has %v (%v) for arm64, want %v", got, err, want)
	}

	folder := filepath.Join(t.TempDir(), "oci")
	if err := SaveLayout([]Index{index}, folder); err != nil {
		t.Fatal(err)
	}
	saved, err := layout.FromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	root, err := saved.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Errorf("the image layout is invalid: %v", err)
	}

	file := filepath.Join(t.TempDir(), "images.tar")
	if err := SaveArchive([]Index{index}, "arm64", file); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(full)
	if err != nil {
		t.Fatal(err)
	}
	archived, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := archived.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.Labels["org.opencontainers.image.title"] != "app" {
		t.Errorf("the archive has an image for %s with labels %v", config.Architecture, config.Config.Labels)
	}
}

// A hard link takes no space and has the file's content.
func TestHardLink(t *testing.T) {
	spec := sample(t)
	spec.Files = append(spec.Files, File{Path: "/plugin/app", LinkTo: "/usr/bin/app"})
	image, err := Build(spec, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	links := map[string]string{}
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeLink {
			links[header.Name] = header.Linkname
		}
	}
	if diff := cmp.Diff(map[string]string{"plugin/app": "usr/bin/app"}, links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
