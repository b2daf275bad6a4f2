// Command protogen generates Go code from .proto files, in the folder of each. It needs no protoc: protocompile
// compiles the files, and the generators are the tools of its go.mod.
//
// Usage, in the root of the repository: go run -C tools/protogen . DIRECTORY FILE.proto ...
//
// DIRECTORY is the repository. The files are relative to it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen DIRECTORY FILE.proto ...")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate runs each generator on the files.
func generate(ctx context.Context, root string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return err
	}
	parameter := "paths=source_relative"
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: &parameter}
	for _, file := range compiled { // The generator rejects an import that is not among them.
		request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(file))
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, root, generator, request); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	return nil
}

// run sends the request to one generator, and writes the returned files.
func run(
	ctx context.Context, root, generator string, request *pluginpb.CodeGeneratorRequest,
) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(root, filepath.FromSlash(file.GetName()))
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
