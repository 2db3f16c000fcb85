/** The element of the page that has this id. @throws when index.html has none, or one of another type */
export function element<T extends Element>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new TypeError(`index.html has no ${type.name} #${id}.`);
  return found;
}

/** The part of an entry that a selector finds. @throws {TypeError} if the template has none of this type */
export function part<T extends Element>(
  parent: ParentNode,
  selector: string,
  type: new () => T,
): T {
  const found = parent.querySelector(selector);
  if (!(found instanceof type)) throw new TypeError(`The template has no ${selector}.`);
  return found;
}
