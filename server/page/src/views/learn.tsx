/** Learn. */
export function LearnView() {
  return <h1>Learn</h1>;
}
