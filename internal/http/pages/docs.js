'use strict';
// An address with a name and password in it works once, and then not for what the page itself asks for.
const here = new URL(document.URL);
if (here.username || here.password) {
  here.username = here.password = '';
  location.replace(here);
} else {
  Redoc.init('docs/openapi.yaml', {
    expandResponses: '200,201',
  }, document.getElementById('reference'));
}
