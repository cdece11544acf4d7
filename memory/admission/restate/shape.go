package restate

import (
	"slices"
	"strings"
)

// shapes are the sentence patterns that are turned into one. $A and $B are noun
// phrases of up to six tokens, $X one without a possessive, $S a single word
// without article, $Y and $Z nouns of up to three words without preposition or
// possessive, $N a number with its unit, $V the rest of the sentence. +t demands
// "the" before the noun, and # a number at the head. The whole sentence has to
// match and no capture spans a verb, a negation or a modal, so a pattern never
// hides a word. What follows "/" is the category of a preference.
const shapes = `
$X is $A 's $Y                = $A 's $Y is $X
$Y+t of $A is $V              = $A 's $Y is $V
$X is $Y+t of $A              = $A 's $Y is $X
$A 's $Y 's $Z is $V          = $A 's $Y 's $Z is $V
$A is named $V                = $A 's name is $V
$A has $Y named $V            = $A 's $Y 's name is $V
$A owns $Y named $V           = $A 's $Y 's name is $V
$A has $Y of #V               = $A 's $Y is $V
$A is #N long                 = $A 's length is $N
$A is #N big                  = $A 's size is $N
$A is #N tall                 = $A 's height is $N
$Y : $V                       = $Y is $V
$Y = $V                       = $Y is $V
$A 's home is $V              = $A lives in $V
$A 's home is in $V           = $A lives in $V
$A 's residence is $V         = $A lives in $V
user is located in $V         = user lives in $V
user 's location is $V        = user lives in $V
$A 's employer is $V          = $A works for $V
$A employs $V                 = $V works for $A
$A 's job is $V               = $A works as $V
$A is $Y by job               = $A works as $Y
allergic to $V                = user has-allergy $V
$B reports to $A              = $A manages $B
$B 's manager is $A           = $A manages $B
$A is allergic to $V          = $A has-allergy $V
$A has allergy to $V          = $A has-allergy $V
$A has $X allergy             = $A has-allergy $X
$X is required for $A         = $A require $X
$A requires $V                = $A require $V
$A need $V                    = $A require $V
$S is $Y+t                    = $Y is $S
$A 's author is $B            = $B wrote $A
$A 's headquarters is in $V   = $A 's headquarters is located in $V
$A has $V disabled            = $V is disabled in $A
$A has $V enabled             = $V is enabled in $A
$A 's preferred $Y is $V      = $A PREFERS $V / $Y
$X is $A 's preferred $Y      = $A PREFERS $X / $Y
$A 's $Y of choice is $V      = $A PREFERS $V / $Y
$X is $A 's $Y of choice      = $A PREFERS $X / $Y
$A 's $Y preference is $V     = $A PREFERS $V / $Y
$A 's preference for $Y is $V = $A PREFERS $V / $Y
$A 's preference is $V        = $A PREFERS $V
$A 's preferred is $V         = $A PREFERS $V
$X is $A 's preferred         = $A PREFERS $X
$A prefers $V                 = $A PREFERS $V
$A likes $X best              = $A PREFERS $X
$A likes $X most              = $A PREFERS $X
$A likes $X more than $V      = $A PREFERS $X over $V
$A likes $X better than $V    = $A PREFERS $X over $V
$X is preferred by $A         = $A PREFERS $X
what $A prefers is $V         = $A PREFERS $V
$X is what $A prefers         = $A PREFERS $X
$Y preferred by $A is $V      = $A PREFERS $V / $Y
$Y $A prefers is $V           = $A PREFERS $V / $Y
$Y that $A prefers is $V      = $A PREFERS $V / $Y
$Y $A likes best is $V        = $A PREFERS $V / $Y
$X is $Y $A prefers           = $A PREFERS $X / $Y
$X is $Y that $A prefers      = $A PREFERS $X / $Y
$X is $Y preferred by $A      = $A PREFERS $X / $Y
$X is $Y $A likes best        = $A PREFERS $X / $Y
when it comes to $Y , $A prefers $V = $A PREFERS $V / $Y
among $Y , $A prefers $V      = $A PREFERS $V / $Y
among $Y , $A likes $X best   = $A PREFERS $X / $Y
for $Y , $A prefers $V        = $A PREFERS $V / $Y
preferred $Y of $A is $V      = $A PREFERS $V / $Y
$X is preferred $Y of $A      = $A PREFERS $X / $Y
as $Y , $A prefers $V         = $A PREFERS $V / $Y
$A considers $X preferred $Y  = $A PREFERS $X / $Y
$A lists $X as preferred $Y   = $A PREFERS $X / $Y
preferred $Y is $V            = user PREFERS $V / $Y
preferred $Y : $V             = user PREFERS $V / $Y
preferred $Y = $V             = user PREFERS $V / $Y
$Y preference is $V           = user PREFERS $V / $Y
$Y preference : $V            = user PREFERS $V / $Y
$Y preference = $V            = user PREFERS $V / $Y
user preferred $Y is $V       = user PREFERS $V / $Y
user preferred $Y : $V        = user PREFERS $V / $Y
user $Y preference : $V       = user PREFERS $V / $Y
`

type elem struct {
	lit     string
	capture byte
	the     bool
	number  bool
}

type shape struct {
	pattern, out []elem
	category     byte
	needs        uint64 // literals that must occur
}

type span struct{ from, to int }

var (
	allShapes []shape
	litBits   = make(map[string]uint64)
)

func init() {
	lines := strings.Split(shapes, "\n")
	var own []string
	for a := range ownAttributes {
		for _, p := range []string{":", "="} {
			own = append(own, a+" "+p+" $V = user 's "+a+" is $V", "user "+a+" "+p+" $V = user 's "+a+" is $V")
		}
	}
	slices.Sort(own)
	for _, line := range append(own, lines...) {
		i := strings.LastIndex(line, " = ")
		if i < 0 {
			continue
		}
		out, category, _ := strings.Cut(line[i+3:], "/")
		s := shape{pattern: elems(line[:i]), out: elems(out)}
		if category = strings.TrimSpace(category); category != "" {
			s.category = category[1]
		}
		for _, e := range s.pattern {
			if e.capture != 0 {
				continue
			}
			if litBits[e.lit] == 0 && len(litBits) < 63 {
				litBits[e.lit] = 1 << len(litBits)
			}
			s.needs |= litBits[e.lit]
		}
		allShapes = append(allShapes, s)
	}
}

func elems(s string) []elem {
	var out []elem
	for f := range strings.FieldsSeq(s) {
		var e elem
		f, e.the = strings.CutSuffix(f, "+t")
		f, e.number = strings.CutPrefix(f, "#")
		switch {
		case strings.HasPrefix(f, "$"):
			e.capture = f[1]
		case e.number:
			e.capture = f[0]
		default:
			e.lit = f
		}
		out = append(out, e)
	}
	return out
}

// reshape applies the first shape that matches the whole sentence.
func (s *Statement) reshape(in []token) ([]token, bool) {
	var have uint64
	for i := range in {
		have |= litBits[in[i].key]
	}
	var caps [26]span
	for i := range allShapes {
		sh := &allShapes[i]
		if sh.needs&^have != 0 || !match(sh.pattern, in, 0, &caps) {
			continue
		}
		get := func(c byte) []token { sp := caps[c-'A']; return in[sp.from:sp.to] }
		out := make([]token, 0, len(in)+4)
		for _, e := range sh.out {
			if e.capture != 0 {
				out = append(out, get(e.capture)...)
			} else {
				out = append(out, token{key: e.lit, orig: e.lit})
			}
		}
		if sh.category != 0 {
			s.category = categoryKey(get(sh.category))
		}
		return s.finish(out), true
	}
	return in, false
}

func categoryKey(toks []token) string {
	keys := make([]string, len(toks))
	for i, t := range toks {
		keys[i] = t.key
	}
	return singular(strings.Join(keys, "-"))
}

// finish does what a pattern cannot say: the name of kin, allergies in the
// plural, and the category inside a preference.
func (s *Statement) finish(toks []token) []token {
	at := func(k string) int {
		return slices.IndexFunc(toks, func(t token) bool { return t.key == k })
	}
	if i := at("is"); i > 3 && i+1 < len(toks) && toks[i-1].key == "name" && toks[i-2].key == "'s" && kin[toks[i-3].key] && toks[i+1].kind == name {
		return append(toks[:i-2:i-2], toks[i:]...)
	}
	if i := at("has-allergy"); i > 0 {
		for j := i + 1; j < len(toks); j++ {
			if toks[j].kind == word {
				toks[j].key = singular(toks[j].key)
				toks[j].orig = toks[j].key
			}
		}
		return toks
	}
	i := at("PREFERS")
	if i < 0 {
		return toks
	}
	v := toks[i+1:]
	if j := slices.IndexFunc(v, func(t token) bool { return t.key == "as" || t.key == "over" }); j > 0 && s.category == "" {
		c := v[j+1:]
		if len(c) > 1 && (v[j].key == "as" && (c[0].key == "their" || c[0].key == "his" || c[0].key == "her" || c[0].key == "preferred") || v[j].key == "over" && c[0].key == "other") {
			c = c[1:]
		} else if v[j].key == "over" {
			c = nil
		}
		if len(c) > 0 && len(c) <= 3 && nominal(c) && !slices.ContainsFunc(c, isPrep) {
			s.category = categoryKey(c)
			v = v[:j]
		}
	}
	// "prefers tea to coffee" is "tea over coffee", but "prefers clients to call"
	// is not.
	for j := 1; j+1 < len(v); j++ {
		if v[j].key == "to" && (v[j+1].kind == name || categories[v[j+1].key] != nil) || v[j].key == "than" {
			v[j].key, v[j].orig = "over", "over"
		}
	}
	if len(v) == 2 && s.category == "" {
		if categories[v[0].key][v[1].key] {
			s.category, v = v[1].key, v[:1]
		} else if categories[v[1].key][v[0].key] {
			s.category, v = v[0].key, v[1:]
		}
	}
	if len(v) <= 3 {
		s.object = strings.Join(keysOf(v), "-")
	}
	return append(toks[:i+1:i+1], v...)
}

func keysOf(toks []token) []string {
	out := make([]string, len(toks))
	for i, t := range toks {
		out[i] = t.key
	}
	return out
}

func match(p []elem, in []token, at int, caps *[26]span) bool {
	if len(p) == 0 {
		return at == len(in)
	}
	if len(in)-at < len(p) {
		return false
	}
	e := p[0]
	if e.capture == 0 {
		t := &in[at]
		// "The preferred editor is Vim" does not say whose.
		if t.key != e.lit || at == 0 && e.lit != "user" && t.article != 0 || t.quoted || t.kind == name && !caseless[t.key] {
			return false
		}
		return match(p[1:], in, at+1, caps)
	}
	if e.the && in[at].article != 't' || e.number && in[at].kind != number {
		return false
	}
	limit := 6
	switch e.capture {
	case 'S':
		limit = 1
		if in[at].article != 0 || in[at].key == "it" || in[at].key == "this" || in[at].key == "that" || in[at].key == "there" || in[at].key == "what" {
			return false
		}
	case 'Y', 'Z', 'N':
		limit = 3
	case 'V':
		limit = len(in)
	}
	if e.capture == 'N' && in[at].kind != number {
		return false
	}
	for end := at; end < len(in) && end-at < limit; {
		t := &in[end]
		switch e.capture {
		case 'V':
			if barriers[t.key] && t.key != "and" && t.key != "or" || t.kind == mood || t.kind == punct {
				return false
			}
		case 'A', 'B':
			if barriers[t.key] || t.kind == punct || t.kind == mood {
				return false
			}
		default:
			if barriers[t.key] || t.kind == punct || t.kind == mood || t.key == "'s" || e.capture != 'X' && isPrep(*t) {
				return false
			}
		}
		end++
		caps[e.capture-'A'] = span{at, end}
		if match(p[1:], in, end, caps) {
			caps[e.capture-'A'] = span{at, end}
			return true
		}
	}
	return false
}
