/** Reads a text as a map of surprise. */
export function ReadView() {
  return <h1>Read</h1>;
}
