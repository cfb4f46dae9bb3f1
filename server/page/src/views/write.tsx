/** Write. */
export function WriteView() {
  return <h1>Write</h1>;
}
