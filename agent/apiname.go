package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// unsendable are the characters that model APIs do not take in a name.
var unsendable = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// Sizes of a name that is too long for a model API: how much of it stays, and how many
// digits of its hash follow.
const (
	keptOfName   = 55
	digitsOfName = 8
)

// APIName is the name under which model APIs take a tool: letters, digits, "_" and "-", at
// most 64. Each other character becomes "_"; a longer name is cut, and ends with digits of
// its hash. A name of that form stays as it is. Policies, blocks and the audit know the tool
// by its own name.
func APIName(tool string) string {
	name := unsendable.ReplaceAllString(tool, "_")
	switch {
	case len(name) > 64:
		sum := sha256.Sum256([]byte(tool))
		return name[:keptOfName] + "_" + hex.EncodeToString(sum[:])[:digitsOfName]
	case name == "":
		return "_"
	}
	return name
}

// ErrAPIName: two tools of the agent have one name for model APIs.
var ErrAPIName = errors.New("agent: name of a tool for model APIs")

// CheckAPINames is [ErrAPIName] if two of the agent's tools have one [APIName]. Adapters ask
// it when they are built.
func (a *Agent) CheckAPINames() error {
	taken := map[string]string{}
	for _, name := range a.order {
		n := strings.ToLower(APIName(name)) // some models do not keep the letter case
		if other, is := taken[n]; is {
			return fmt.Errorf("%w: %q and %q are both %s", ErrAPIName, other, name, APIName(name))
		}
		taken[n] = name
	}
	return nil
}

// ToolOf is the tool that a model calls by this name: the one that has it, else the one with
// that [APIName], else the name as it is, which is that of no tool.
func (a *Agent) ToolOf(apiName string) string {
	if a.tools[apiName] != nil {
		return apiName
	}
	if name, is := a.byAPIName[apiName]; is {
		return name
	}
	return apiName
}
