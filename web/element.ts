/** The element of the page that has this id. @throws when index.html has none, or one of another type */
export function element<T extends Element>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new TypeError(`index.html has no ${type.name} #${id}.`);
  return found;
}
