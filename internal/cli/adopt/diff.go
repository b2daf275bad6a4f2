package adopt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// toMap converts a value to its JSON form without null fields.
func toMap(value any) (map[string]any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("convert the Rollout: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("convert the Rollout: %w", err)
	}
	dropNulls(object)
	return object, nil
}

// dropNulls removes null fields recursively.
func dropNulls(node any) {
	switch value := node.(type) {
	case map[string]any:
		for key, child := range value {
			if child == nil {
				delete(value, key)
			}
			dropNulls(child)
		}
	case []any:
		for _, child := range value {
			dropNulls(child)
		}
	}
}

// diff compares the YAML of two objects line by line.
func diff(before, after map[string]any) ([]string, error) {
	removed, err := yamlLines(before)
	if err != nil {
		return nil, err
	}
	next, err := yamlLines(after)
	if err != nil {
		return nil, err
	}
	return lineDiff(removed, next), nil
}

// yamlLines returns the lines of an object's YAML.
func yamlLines(object map[string]any) ([]string, error) {
	if len(object) == 0 {
		return nil, nil
	}
	text, err := yaml.Marshal(object)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

// lineDiff keeps the longest common subsequence of the lines: common[i][j] is its length in old[i:] and next[j:].
func lineDiff(old, next []string) []string {
	common := make([][]int, len(old)+1)
	for i := range common {
		common[i] = make([]int, len(next)+1)
	}
	for i := range slices.Backward(old) {
		for j := range slices.Backward(next) {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if old[i] == next[j] {
				common[i][j] = 1 + common[i+1][j+1]
			}
		}
	}
	var all []string
	i, j := 0, 0
	for i < len(old) || j < len(next) {
		switch {
		case i < len(old) && j < len(next) && old[i] == next[j]:
			all = append(all, "  "+old[i])
			i, j = i+1, j+1
		case j == len(next) || i < len(old) && common[i+1][j] >= common[i][j+1]:
			all = append(all, "- "+old[i])
			i++
		default:
			all = append(all, "+ "+next[j])
			j++
		}
	}
	return all
}
