/** A sample text for the page. */
export interface Sample {
  name: string;
  note: string;
  text: () => string;
}

// Returns a reproducible sequence of numbers from a linear congruential generator.
function numbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

function serverLog(): string {
  const draw = numbers(7);
  const paths = [
    "/", "/index.html", "/about", "/items/", "/items/new", "/static/app.css", "/login",
  ];
  const lines: string[] = [];
  for (let i = 0; i < 140; i++) {
    const seconds = String(i % 60).padStart(2, "0");
    const minutes = String(4 + Math.floor(i / 60)).padStart(2, "0");
    const at = `2026-03-14T09:${minutes}:${seconds}Z`;
    const path = paths[draw(paths.length)];
    const id = path === "/items/" ? String(100 + draw(40)) : "";
    lines.push(`${at} INFO web-1 GET ${path}${id} 200 ${3 + draw(20)}ms`);
    if (i === 96) lines.push(`${at} ERROR web-1 panic: connection to db-2 lost after 30000ms`);
    if (i === 97) lines.push(`${at} WARN web-1 GET /../../etc/passwd 400 1ms from 203.0.113.9`);
  }
  return lines.join("\n") + "\n";
}

// The beginning of "Alice's Adventures in Wonderland" (Lewis Carroll, 1865).
const story = `Alice was beginning to get very tired of sitting by her sister on the bank, and of \
having nothing to do: once or twice she had peeped into the book her sister was reading, but it \
had no pictures or conversations in it, "and what is the use of a book," thought Alice "without \
pictures or conversations?"

So she was considering in her own mind (as well as she could, for the hot day made her feel very \
sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the trouble of \
getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her.

There was nothing so very remarkable in that; nor did Alice think it so very much out of the way \
to hear the Rabbit say to itself, "Oh dear! Oh dear! I shall be late!" (when she thought it over \
afterwards, it occurred to her that she ought to have wondered at this, but at the time it all \
seemed quite natural); but when the Rabbit actually took a watch out of its waistcoat-pocket, and \
looked at it, and then hurried on, Alice started to her feet, for it flashed across her mind that \
she had never before seen a rabbit with either a waistcoat-pocket, or a watch to take out of it, \
and burning with curiosity, she ran across the field after it, and fortunately was just in time \
to see it pop down a large rabbit-hole under the hedge.
`;

function sourceCode(): string {
  const shapes = ["Circle", "Square", "Triangle", "Hexagon", "Ellipse"];
  const sides = ["0", "4", "3", "6", "0"];
  const parts = shapes.map((shape, i) => `// ${shape} is a shape with a size.
type ${shape} struct {
	size float64
}

// New${shape} makes a ${shape.toLowerCase()} of a size, which has to be positive.
func New${shape}(size float64) (*${shape}, error) {
	if size <= 0 {
		return nil, fmt.Errorf("shapes: found size %v, expected one over 0", size)
	}
	return &${shape}{size: size}, nil
}

// Sides is how many sides the ${shape.toLowerCase()} has.
func (s *${shape}) Sides() int { return ${sides[i]} }
`);
  return `package shapes\n\nimport "fmt"\n\n${parts.join("\n")}`;
}

export const samples: Sample[] = [
  { name: "A server’s log", note: "with an incident in it", text: serverLog },
  { name: "A story", note: "how Alice met the Rabbit", text: () => story },
  { name: "Source code", note: "five shapes in Go", text: sourceCode },
];
